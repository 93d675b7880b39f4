// SPDX-License-Identifier: Apache-2.0
// The relay and the terminal, driven by Node's `ws`.
// usage: node ws.mjs PORT SOCKET

import assert from 'node:assert/strict';
import {once} from 'node:events';
import {createRequire} from 'node:module';

// Installed below the build directory, not beside this file.
const WebSocket = createRequire(`${process.cwd()}/`)('ws');
const [port, socketPath] = process.argv.slice(2);
const base = `127.0.0.1:${port}`;
const session = 'ws';
const DEADLINE_MS = 20000;

const call = async (method, path, body) => {
  const answer = await fetch(`http://${base}/v1/sessions${path}`, {
    method,
    body: body && JSON.stringify(body),
    headers: body ? {'content-type': 'application/json'} : {},
  });
  const result = await answer.json();
  assert.ok(answer.ok, `${method} ${path}: ${JSON.stringify(result)}`);
  return result;
};
const start = (id, command, ...args) => call('POST', `/${session}/processes`, {process_id: id, command, args});
const relayUrl = (id, query = '') => `ws://${base}/v1/sessions/${session}/managed-process/${id}/ws${query}`;

// A socket whose messages wait until they are asked for.
class Client {
  constructor(url, protocols = 'mcp', options = {}) {
    this.messages = [];
    this.waiting = [];
    this.socket = new WebSocket(url, protocols, {maxPayload: 64 << 20, ...options});
    this.socket.on('message', (data, binary) => {
      const message = {data, binary, text: binary ? undefined : data.toString()};
      this.waiting.length ? this.waiting.shift()(message) : this.messages.push(message);
    });
    this.closed = new Promise((resolve) => this.socket.on('close', (code) => resolve({code})));
    this.socket.on('error', () => {}); // open() has it
  }
  async open() {
    await once(this.socket, 'open');
    return this;
  }
  next() {
    return this.messages.length ? this.messages.shift() : new Promise((resolve) => this.waiting.push(resolve));
  }
  async text() {
    return (await this.next()).text;
  }
  async close(code = 1000) {
    this.socket.close(code);
    return (await this.closed).code;
  }
}
const relay = (id, query) => new Client(relayUrl(id, query)).open();
const terminal = (query = '') => new Client(`ws://${base}/v1/sessions/${session}/pty/ws${query}`, []).open();

// Reads binary frames until the text is there, or the terminal ends.
const until = async (client, wanted, seen = '') => {
  while (!wanted.test(seen)) {
    const message = await client.next();
    assert.ok(message.binary, `ended: ${message.text}, before ${wanted} in ${JSON.stringify(seen)}`);
    seen += message.data.toString();
  }
  return seen;
};
const exitFrame = async (client) => {
  for (;;) {
    const message = await client.next();
    if (!message.binary) return JSON.parse(message.text);
  }
};
const refusal = (url, protocols, options) =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket(url, protocols, options);
    socket.on('open', () => reject(new Error('it was accepted')));
    socket.on('error', () => {});
    socket.on('unexpected-response', async (request, answer) => {
      let body = '';
      for await (const piece of answer) body += piece;
      resolve({status: answer.statusCode, code: JSON.parse(body).error.code});
    });
  });

const tests = {
  'relay: subprotocol, and no extensions though ws offers one': async () => {
    await start('a', 'cat');
    const client = await relay('a');
    assert.equal(client.socket.protocol, 'mcp');
    assert.equal(client.socket.extensions, '');
    assert.equal(await client.close(), 1000);
  },
  'relay: lines come back in order': async () => {
    await start('a', 'cat');
    const client = await relay('a');
    const lines = Array.from({length: 2000}, (_, i) => JSON.stringify({jsonrpc: '2.0', id: i, ü: '☃'.repeat(i % 50)}));
    for (const line of lines) client.socket.send(line);
    for (const line of lines) assert.equal(await client.text(), line);
    assert.equal(await client.close(), 1000);
  },
  'relay: a large message, whole and in fragments': async () => {
    await start('a', 'cat');
    const client = await relay('a');
    const large = 'x'.repeat(8 << 20);
    client.socket.send(large);
    assert.equal(await client.text(), large);
    for (let i = 0; i < 100; i++) client.socket.send(`part ${i};`, {fin: i === 99});
    assert.equal(await client.text(), Array.from({length: 100}, (_, i) => `part ${i};`).join(''));
    assert.equal(await client.close(), 1000);
  },
  'relay: pings among fragments': async () => {
    await start('a', 'cat');
    const client = await relay('a');
    const pong = once(client.socket, 'pong');
    client.socket.send('one ', {fin: false});
    client.socket.ping('are you there');
    client.socket.send('two', {fin: true});
    assert.equal((await pong)[0].toString(), 'are you there');
    assert.equal(await client.text(), 'one two');
    assert.equal(await client.close(), 1000);
  },
  'relay: close codes are given back': async () => {
    await start('a', 'cat');
    for (const code of [1000, 1001, 3000, 4999]) assert.equal(await (await relay('a')).close(code), code);
  },
  'relay: binary is refused': async () => {
    await start('a', 'cat');
    const client = await relay('a');
    client.socket.send(Buffer.from([1, 2, 3]));
    assert.equal((await client.closed).code, 1003);
  },
  'relay: the end of the process is a normal close': async () => {
    await start('b', 'sh', '-c', 'read line; echo "got $line"; printf rest');
    const client = await relay('b');
    client.socket.send('it');
    assert.equal(await client.text(), 'got it');
    assert.equal(await client.text(), 'rest');
    assert.equal((await client.closed).code, 1000);
    assert.deepEqual(await refusal(relayUrl('b'), 'mcp'), {status: 400, code: 'BoxManagedProcessConflictError'});
  },
  'relay: the process outlives a connection that is cut': async () => {
    await start('c', 'cat');
    const first = await relay('c');
    first.socket.send('before');
    assert.equal(await first.text(), 'before');
    first.socket.terminate();
    const second = await relay('c');
    second.socket.send('after');
    assert.equal(await second.text(), 'after');
    second.socket.terminate();
    const replay = await relay('c', '?since=0');
    assert.equal(await replay.text(), 'before');
    assert.equal(await replay.text(), 'after');
    assert.equal(await replay.close(), 1000);
  },
  'relay: the next client waits for its turn': async () => {
    await start('d', 'cat');
    const first = await relay('d');
    const second = await relay('d');
    second.socket.send('second');
    first.socket.send('first');
    assert.equal(await first.text(), 'first');
    assert.equal(await first.close(), 1000);
    assert.equal(await second.text(), 'second');
    assert.equal(await second.close(), 1000);
  },
  'relay: a client that does not read holds the process up, and misses nothing': async () => {
    await start('e', 'sh', '-c', 'read go; exec seq 1 200000');
    const client = await relay('e');
    client.socket.send('go');
    client.socket.pause();
    await new Promise((resolve) => setTimeout(resolve, 300));
    client.socket.resume();
    for (let i = 1; i <= 200000; i++) assert.equal(await client.text(), String(i));
    assert.equal((await client.closed).code, 1000);
  },
  'relay: refused before the upgrade': async () => {
    assert.deepEqual(await refusal(relayUrl('nobody'), 'mcp'), {status: 400, code: 'BoxManagedProcessNotFoundError'});
    const other = relayUrl('a').replace('/ws/', '/nobody/');
    assert.deepEqual(await refusal(other, 'mcp'), {status: 400, code: 'BoxSessionNotFoundError'});
    const page = await refusal(relayUrl('a'), 'mcp', {origin: 'https://example.org'});
    assert.equal(page.status, 403);
  },
  'relay: by the Unix socket': async () => {
    await start('a', 'cat');
    const client = await new Client(`ws+unix://${socketPath}:/v1/sessions/${session}/managed-process/a/ws`).open();
    client.socket.send('local');
    assert.equal(await client.text(), 'local');
    assert.equal(await client.close(), 1000);
  },
  'terminal: size, resize, and the exit': async () => {
    const client = await terminal('?rows=30&cols=100');
    client.socket.send(Buffer.from('stty size; echo do""ne\n'));
    assert.match(await until(client, /done/), /30 100/);
    client.socket.send(JSON.stringify({type: 'resize', rows: 50, cols: 132}));
    client.socket.send(Buffer.from('stty size; echo re""sized\n'));
    assert.match(await until(client, /resized/), /50 132/);
    client.socket.send(Buffer.from('exit 7\n'));
    const exit = await exitFrame(client);
    assert.deepEqual([exit.type, exit.exit_code, exit.signal], ['exit', 7, null]);
    assert.equal((await client.closed).code, 1000);
  },
  'terminal: bytes in fragments, and an interrupt': async () => {
    const client = await terminal(`?cmd=${encodeURIComponent('trap "echo interrupted; exit 3" INT; echo ready; cat')}`);
    await until(client, /ready/);
    client.socket.send(Buffer.from('frag'), {fin: false, binary: true});
    client.socket.ping();
    client.socket.send(Buffer.from('ments\n'), {fin: true, binary: true});
    await until(client, /fragments\r\nfragments/);
    client.socket.send(Buffer.from('\x03'));
    await until(client, /interrupted/);
    assert.equal((await exitFrame(client)).exit_code, 3);
    assert.equal((await client.closed).code, 1000);
  },
  'terminal: a lot of output': async () => {
    const client = await terminal(`?cmd=${encodeURIComponent('stty -onlcr; head -c 8000000 /dev/zero | tr "\\0" x; echo; echo the end')}`);
    let size = 0, tail = '';
    for (let message; (message = await client.next()).binary;) {
      size += message.data.length;
      tail = (tail + message.data.toString()).slice(-16);
    }
    assert.equal(size, 8000000 + 1 + 'the end\n'.length);
    assert.match(tail, /x\nthe end\n$/);
  },
  'terminal: a text frame that means nothing': async () => {
    const client = await terminal();
    client.socket.send('{"type":"dance"}');
    assert.equal((await client.closed).code, 1008);
  },
  'terminal: the client leaves, and its commands with it': async () => {
    const client = await terminal(`?cmd=${encodeURIComponent('echo here; exec sleep 4711')}`);
    await until(client, /here/);
    const find = async () =>
      (await call('POST', `/${session}/exec`, {cmd: 'grep -slz "^4711" /proc/[0-9]*/cmdline; true'})).stdout;
    while (!(await find())); // exec comes after echo
    client.socket.terminate();
    const late = Date.now() + 5000;
    for (let found; (found = await find());) assert.ok(Date.now() < late, `still there: ${found}`);
  },
};

let failed = 0;
await call('POST', '', {session_id: session});
for (const [name, test] of Object.entries(tests)) {
  let timer;
  const late = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Error('it took too long')), DEADLINE_MS);
  });
  try {
    await Promise.race([test(), late]);
  } catch (error) {
    failed++;
    console.log(`FAILED ${name}: ${error.stack.split('\n').slice(0, 12).join('\n  ')}`);
  }
  clearTimeout(timer);
}
await call('DELETE', `/${session}`);
console.log(`ws: ${Object.keys(tests).length - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
