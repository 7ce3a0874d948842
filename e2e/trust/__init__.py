"""What the program keeps when things break: README.md."""
