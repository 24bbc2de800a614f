#!/bin/sh
# Requests per second of server CPU, side by side: ours, nginx (return 200, one worker), and a bare epoll responder that
# parses nothing. Each server has core 0, wrk has core 1. Run it from the top of the repository after `make`:
#     sh bench/server.sh [SECONDS [ROUNDS]]
# Every round measures all servers; what is printed is each one's best round. Needs wrk and nginx, Linux.
seconds=${1:-5}
rounds=${2:-3}
lua=${LUA:-lua5.4}
top=$(pwd)
dir=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null; rm -rf "$dir"' EXIT INT TERM

for tool in wrk nginx taskset; do
  command -v $tool >/dev/null || { echo "server.sh needs $tool"; exit 1; }
done
mkdir -p build/bench
${CC:-cc} -O2 -o build/bench/responder bench/responder.c || exit 1
export LUA_PATH="$top/lua/?.lua;$top/lua/?/init.lua;;" LUA_CPATH="${PARTLINE_BUILD:-$top/build}/?.so;;"

base=$((10000 + $$ % 20000)) # below the ports that clients are given
start() {  # start NAME PORT COMMAND...: remembers the process that serves as $dir/NAME.pid
  name=$1 port=$2
  shift 2
  taskset -c 0 "$@" >"$dir/$name.log" 2>&1 &
  echo $! >"$dir/$name.pid"
  echo "$port" >"$dir/$name.port"
  pids="$pids $!"
}

cat >"$dir/nginx.conf" <<EOF
daemon off; worker_processes 1; pid $dir/nginx.master; error_log $dir/error.log;
events { worker_connections 2048; }
http {
  access_log off; keepalive_requests 100000000; client_body_temp_path $dir/body; proxy_temp_path $dir/proxy;
  fastcgi_temp_path $dir/fastcgi; uwsgi_temp_path $dir/uwsgi; scgi_temp_path $dir/scgi;
  server { listen 127.0.0.1:$((base + 1)) backlog=1024; location / { return 200 "hello world"; } }
}
EOF

start responder $base "$top/build/bench/responder" $base
start nginx $((base + 1)) nginx -c "$dir/nginx.conf"
start partline $((base + 2)) "$lua" bench/hello.lua $((base + 2))
start responder-50ms $((base + 3)) "$top/build/bench/responder" $((base + 3)) 50
start partline-50ms $((base + 4)) "$lua" bench/hello.lua $((base + 4)) 0.05
sleep 1
pgrep -P "$(cat "$dir/nginx.pid")" | head -n 1 >"$dir/worker" && [ -s "$dir/worker" ] && mv "$dir/worker" "$dir/nginx.pid"

cpu() { awk '{ sub(/^.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"; }

measure() {  # measure NAME WRK-OPTIONS...: one line of figures in $dir/NAME.WRK-OPTIONS
  name=$1
  shift
  pid=$(cat "$dir/$name.pid")
  before=$(cpu "$pid")
  taskset -c 1 wrk "$@" -d "${seconds}s" --latency "http://127.0.0.1:$(cat "$dir/$name.port")/" >"$dir/out"
  after=$(cpu "$pid")
  rss=$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status")
  awk -v ticks=$((after - before)) -v rss="$rss" -v seconds="$seconds" '
    function ms(t) { return t ~ /us$/ ? t / 1000 : t ~ /ms$/ ? t + 0 : t * 1000 }
    /^ +50%/ { p50 = ms($2) } /^ +99%/ { p99 = ms($2) } /requests in/ { n = $1 } /Requests\/sec/ { rate = $2 }
    /Socket errors/ { errors = $4 + $6 + $8 + $10 } /Non-2xx/ { errors += $NF }
    END { printf "%d %d %d %.2f %.2f %d %d\n", ticks ? n * 100 / ticks : 0, rate, ticks / seconds, p50, p99, rss, errors }
  ' "$dir/out" >>"$dir/$name.$(echo "$*" | tr -d ' ')"
}

show() {  # show TITLE WRK-OPTIONS NAME...
  title=$1 options=$2
  shift 2
  echo
  echo "$title"
  printf '%-16s %12s %12s %6s %9s %9s %9s %7s\n' server req/cpu-s req/s cpu% 'p50 ms' 'p99 ms' 'RSS KiB' errors
  for name in "$@"; do
    sort -rn "$dir/$name.$(echo "$options" | tr -d ' ')" | head -n 1 |
      while read -r per_cpu rate used p50 p99 rss errors; do
        printf '%-16s %12d %12d %6d %9.2f %9.2f %9d %7d\n' "$name" "$per_cpu" "$rate" "$used" "$p50" "$p99" "$rss" "$errors"
        echo "$per_cpu $rate" >"$dir/$name.best"
      done
  done
}

ratio() { echo "$(cut -d' ' -f"$3" "$dir/$1.best") $(cut -d' ' -f"$3" "$dir/$2.best")" | awk '{ printf "%.2f", $1 / $2 }'; }

round=0
while [ $round -lt "$rounds" ]; do
  for name in responder nginx partline; do
    measure $name -t2 -c50
    measure $name -t12 -c400
  done
  for name in responder-50ms partline-50ms; do measure $name -t12 -c400; done
  round=$((round + 1))
done

echo "$rounds rounds of $seconds s, the best of each; server on core 0, wrk on core 1"
for options in '-t2 -c50' '-t12 -c400'; do
  show "wrk $options" "$options" responder nginx partline
  echo "partline / nginx: $(ratio partline nginx 1) per CPU second (target 0.80)"
done
show 'wrk -t12 -c400, the handler sleeps 50 ms (at most 8,000 requests/s; target 7,600)' '-t12 -c400' responder-50ms partline-50ms
