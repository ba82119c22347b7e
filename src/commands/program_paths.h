// The paths of this program and its cache: the only place that reads them from the environment.
#pragma once

#include "base/file.h"

namespace hone::commands {

base::fs::path own_program();         // /proc/self/exe, resolved; empty where that cannot be read
base::fs::path cache_folder();        // $XDG_CACHE_HOME/hone, else ~/.cache/hone; empty without a home
base::fs::path token_cache_folder();  // `tokens` in it (data/token_cache.h)

}  // namespace hone::commands
