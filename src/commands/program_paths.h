// Where this program and its cache lie: the only place that asks the environment for them.
#pragma once

#include "base/file.h"

namespace hone::commands {

base::fs::path own_program();   // /proc/self/exe, resolved; empty where that cannot be read
base::fs::path cache_folder();  // $XDG_CACHE_HOME/hone, else ~/.cache/hone; empty without a home

}  // namespace hone::commands
