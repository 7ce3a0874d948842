"""What the program promises to those who call it, and what the documents say: README.md."""
