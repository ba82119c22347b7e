"""The client of PyPI's mcp on `python -m hone.mcp` (tests/python/mcp_test.py runs it with third_party/mcp-venv).

usage: mcp_client.py PYTHON RUN.YAML
"""
import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def field(result, name, former):
    """Version 2 of the package writes names as Python does, version 1 as the protocol does."""
    return getattr(result, name) if hasattr(result, name) else getattr(result, former)


async def main(python, path):
    server = StdioServerParameters(command=python, args=["-m", "hone.mcp"], env=dict(os.environ))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        begun = await session.initialize()
        assert field(begun, "server_info", "serverInfo").name == "hone", begun
        listed = {tool.name for tool in (await session.list_tools()).tools}
        assert {"check", "doctor", "explain", "options"} <= listed, listed
        checked = await session.call_tool("check", {"config": path, "method": "sft"})
        assert not field(checked, "is_error", "isError") and "0 refused" in checked.content[0].text, checked
        options = await session.call_tool("options", {"method": "sft", "names": ["max_length"]})
        assert "max_length" in options.content[0].text, options
        examined = await session.call_tool("doctor", {"config": path, "method": "sft"})
        assert json.loads(examined.content[0].text.split("\nexit code")[0])["parts"], examined
        try:
            await session.call_tool("train", {})
        except Exception as error:  # its class differs between versions of the package
            assert "unknown tool" in str(error), error
        else:
            raise AssertionError("an unknown tool was called")
    print("all answers were right")


asyncio.run(main(*sys.argv[1:]))
