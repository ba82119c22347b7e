// The elements of a JSON list, one after another, without holding the list.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/files/file.h"
#include "data/files/file_text.h"

namespace hone::data {

// Of a file that is one list, or one object whose member `data` is one (datasets' field="data"; other members are
// passed over): take(text of the element, its 1-based line); false stops. Elements are not checked further.
// UserError for anything else, and for a file that ends within the list.
void for_each_element(FileText text, const base::fs::path& path,
                      const std::function<bool(std::string_view, std::int64_t)>& take);

// Whether the text's first object has such a member: one whose list begins with an object, or with nothing.
bool begins_list_of_rows(FileText text);

}  // namespace hone::data
