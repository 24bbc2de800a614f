// busboy beside bench/multipart.lua: 64 MiB in one part, pieces of 64 KiB, content dropped. node bench/busboy.js
const path = require('path');
module.paths.push(path.resolve('build/node/node_modules'), '/usr/share/nodejs');
const busboy = require('busboy');

const boundary = '----WebKitFormBoundaryA1B2C3D4E5F6G7H8I';
const delimiter = Buffer.from('\r\n--' + boundary);
const PIECE = 64 * 1024, PIECES = 1024;

function fill(kind) {
  const p = Buffer.alloc(PIECE);
  const text = 'the quick brown fox jumps over the lazy dog, again and again; ';
  for (let i = 0; i < PIECE; i++) {
    if (kind === 'random') p[i] = Math.random() * 256;
    else if (kind === 'text') p[i] = i % 72 === 70 ? 13 : i % 72 === 71 ? 10 : text.charCodeAt(i % text.length);
    else if (kind === 'all CR') p[i] = 13;
    else if (kind === 'all LF') p[i] = 10;
    else if (kind === 'dashes') p[i] = 45;
    else p[i] = i % delimiter.length === delimiter.length - 1 ? 35 : delimiter[i % delimiter.length];
  }
  return p;
}

function run(kind) {
  return new Promise((done) => {
    const piece = fill(kind);
    const parser = busboy({ headers: { 'content-type': 'multipart/form-data; boundary=' + boundary } });
    parser.on('file', (_, stream) => stream.resume());
    const start = process.hrtime.bigint();
    parser.on('close', () => {
      const ns = Number(process.hrtime.bigint() - start);
      console.log('  busboy, ' + kind.padEnd(20) + (PIECE * PIECES / ns).toFixed(2).padStart(8) + ' GB/s');
      done();
    });
    parser.write('--' + boundary + '\r\nContent-Disposition: form-data; name="f"; filename="x"\r\n\r\n');
    for (let i = 0; i < PIECES; i++) parser.write(piece);
    parser.end('\r\n--' + boundary + '--\r\n');
  });
}

(async () => {
  for (const kind of ['random', 'text', 'all CR', 'all LF', 'dashes', 'near-boundaries']) await run(kind);
})();
