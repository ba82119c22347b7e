// Says whether this build has AddressSanitizer, which watches every block of the heap and gives freed memory
// back late. clang and newer versions of g++ tell it by a feature, older ones by a macro.
#pragma once

namespace hone::base {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kHasAddressSanitizer = true;
#else
inline constexpr bool kHasAddressSanitizer = false;
#endif
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr bool kHasAddressSanitizer = true;
#else
inline constexpr bool kHasAddressSanitizer = false;
#endif

}  // namespace hone::base
