#include "data/files/row_stream.h"

namespace hone::data {

std::size_t held_bytes(const base::Json& value) {
  constexpr std::size_t kNode = 16;
  std::size_t out = kNode;
  if (value.is_string()) return out + value.get_ref<const std::string&>().size();
  if (value.is_structured()) {
    for (const base::Json& each : value) out += held_bytes(each);
  }
  return out;
}

}  // namespace hone::data
