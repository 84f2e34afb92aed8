"""What the bundle does on a node: unpack itself, then set up what the node's role asks for."""
