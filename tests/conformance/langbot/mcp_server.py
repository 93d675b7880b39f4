# SPDX-License-Identifier: Apache-2.0
"""A real MCP server, which runs inside a sandbox and speaks over its standard input and output."""

import os
import sys

from mcp.server.fastmcp import Context, FastMCP

server = FastMCP("conformance", log_level="ERROR")


@server.tool()
def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


@server.tool()
def echo(text: str) -> str:
    """The text itself."""
    return text


@server.tool()
def repeat(text: str, times: int) -> str:
    """A long answer to a short question."""
    return text * times


@server.tool()
def keep(name: str, text: str) -> str:
    """A file in the workspace: where it is."""
    with open(name, "w") as file:
        file.write(text)
    return os.path.abspath(name)


@server.tool()
async def steps(count: int, context: Context) -> int:
    """Tells of its progress before it answers."""
    for i in range(count):
        await context.report_progress(i + 1, count)
        await context.info(f"step {i + 1}")
    return count


@server.resource("note://{name}")
def note(name: str) -> str:
    return f"a note about {name}"


@server.prompt()
def ask(topic: str) -> str:
    return f"What is {topic}?"


print("the MCP server starts", file=sys.stderr)
server.run()
