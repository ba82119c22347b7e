// The files beside this one: response templates by family (tools/families.h).
#pragma once

#include <string_view>

namespace hone::tools {

extern const std::string_view kDeepseekR1Family;
extern const std::string_view kGemma4Family;
extern const std::string_view kGlm4Family;
extern const std::string_view kGptOssFamily;
extern const std::string_view kLfm2Family;
extern const std::string_view kLlama3Family;
extern const std::string_view kMistralFamily;
extern const std::string_view kMistralArgsFamily;
extern const std::string_view kNemotron3Family;
extern const std::string_view kQwen3Family;
extern const std::string_view kQwen35Family;

}  // namespace hone::tools
