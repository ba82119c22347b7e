#include "hone/version.h"

#include "base/version.h"

namespace hone {

const char* version() {
  return base::kHoneVersion;
}

}  // namespace hone
