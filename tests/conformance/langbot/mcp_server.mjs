// SPDX-License-Identifier: Apache-2.0
// A real MCP server with the SDK for Node, which runs inside a sandbox. usage: node mcp_server.mjs NODE-MODULES

import {createRequire} from 'node:module';

const [modules] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const {McpServer} = require('@modelcontextprotocol/sdk/server/mcp.js');
const {StdioServerTransport} = require('@modelcontextprotocol/sdk/server/stdio.js');
const {z} = require('zod');

const server = new McpServer({name: 'conformance', version: '1'});
const text = (value) => ({content: [{type: 'text', text: String(value)}]});
const tool = (name, inputSchema, run) => server.registerTool(name, {description: name, inputSchema}, run);
tool('add', {a: z.number(), b: z.number()}, async ({a, b}) => text(a + b));
tool('echo', {text: z.string()}, async (args) => text(args.text));
tool('repeat', {text: z.string(), times: z.number()}, async (args) => text(args.text.repeat(args.times)));
console.error('the MCP server starts');
await server.connect(new StdioServerTransport());
