"""How fast the program is, and beside what: README.md."""
