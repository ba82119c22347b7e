// ProcessGroupGloo.hpp includes a header of this name.
#pragma once

#include <gloo/names.h>
