// SPDX-License-Identifier: Apache-2.0
// The SDK's client for Node, over its WebSocket transport, against an MCP server behind the relay.
// usage: node mcp_client.mjs URL HEADERS-AS-JSON, in a directory with node_modules

import assert from 'node:assert/strict';
import {createRequire} from 'node:module';

const require = createRequire(`${process.cwd()}/`);
const {Client} = require('@modelcontextprotocol/sdk/client/index.js');
const {WebSocketClientTransport} = require('@modelcontextprotocol/sdk/client/websocket.js');
const WebSocket = require('ws');
const [url, headers] = process.argv.slice(2);

// The transport takes the browser's class, which cannot send headers.
globalThis.WebSocket = class extends WebSocket {
  constructor(address, protocols) {
    super(address, protocols, {headers: JSON.parse(headers)});
  }
};

const client = new Client({name: 'conformance', version: '1'});
await client.connect(new WebSocketClientTransport(new URL(url)));
const call = async (name, args) => (await client.callTool({name, arguments: args})).content[0].text;

assert.equal(client.getServerVersion().name, 'conformance');
const tools = (await client.listTools()).tools.map((tool) => tool.name);
for (const name of ['add', 'echo', 'repeat']) assert.ok(tools.includes(name), `${name} in ${tools}`);
assert.equal(await call('add', {a: 40, b: 2}), '42');
const odd = 'ü☃😀 "quoted" \\ line\nline\u2028';
assert.equal(await call('echo', {text: odd}), odd);
assert.equal(await call('repeat', {text: 'long ', times: 200000}), 'long '.repeat(200000));
const large = 'x'.repeat(1 << 20);
assert.equal(await call('echo', {text: large}), large);
const sums = await Promise.all(Array.from({length: 100}, (_, i) => call('add', {a: i, b: i})));
assert.deepEqual(sums, Array.from({length: 100}, (_, i) => String(2 * i)));
await client.ping();
await client.close();
console.log('all went well');
