#ifndef CAMPANILE_CYAML_SHIM_H
#define CAMPANILE_CYAML_SHIM_H

/* Nothing that Swift can't call by itself. */
#include <yaml.h>

#endif
