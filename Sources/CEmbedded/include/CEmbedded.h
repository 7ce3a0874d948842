#pragma once

#include <stddef.h>

/* A file of the repository that stands in the program: a text, with a NUL behind it that isn't counted. */
struct embedded_file {
  const char *_Nonnull text;
  size_t count;
};

/* The file of this name, without folders. Ends the program if files.c has none: its own sources alone ask. */
struct embedded_file embedded (const char *_Nonnull name);
