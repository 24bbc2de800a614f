std = "lua54"
cache = false
max_line_length = 120
max_cyclomatic_complexity = 20

files["spec"] = { std = "+busted" }
files["types"] = { ignore = { "2.." } }  -- declarations without bodies
