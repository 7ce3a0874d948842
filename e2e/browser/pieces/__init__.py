"""The web pieces, against a server that refuses, cuts and lies on command."""
