"""The MCP server and the stdio shim that agents talk to."""
