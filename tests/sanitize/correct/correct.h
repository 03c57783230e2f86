// Programs without a mistake, of the kinds that a careless sanitizer would accuse.
//   correct NAME
#pragma once

#include "../world.h"

#define CORRECT(name) PROGRAM(name)
