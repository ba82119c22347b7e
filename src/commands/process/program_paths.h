// The paths of this program and its cache: the only place that reads them from the environment.
#pragma once

#include "base/files/file.h"

namespace hone::commands {

base::fs::path own_program();   // /proc/self/exe, resolved; empty where that cannot be read
base::fs::path cache_folder();  // $XDG_CACHE_HOME/hone, else ~/.cache/hone; empty without a home
base::fs::path
caller_socket();  // $HONE_CALLER: the socket of the program that called this one (caller_link.h); empty: none
base::fs::path token_cache_folder();  // `tokens` in it (data/forms/token_cache.h)

}  // namespace hone::commands
