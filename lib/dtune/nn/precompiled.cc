// Gives the precompiled header a target of its own to be built in.
#include <ATen/ATen.h>
