"""The pages in a real browser: README.md."""
