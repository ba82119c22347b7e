#include "tools/suffix_maker.h"

#include "tools/suffix_checks.h"

namespace hone::tools {

using TokenIds = std::vector<std::int32_t>;

struct SuffixMaker::Impl {
  explicit Impl(SuffixForms made) : forms(std::move(made)) {}
  SuffixForms forms;
  TokenIds ends;
  std::vector<std::string> notes;
};

SuffixMaker::SuffixMaker(const text::Tokenizer& tokenizer, const text::ChatTemplate& chat,
                         const Options& options, const std::string& where) {
  auto impl = std::make_shared<Impl>(
      SuffixForms(tokenizer, chat, options.template_kwargs, options.plain_control_tokens, where));
  SuffixChecks checks(impl->forms, where);
  checks.conversations();
  impl->ends = checks.turn_ends();
  if (!options.stop_ids.empty()) checks.stops(impl->ends, options.stop_ids);
  if (options.plain_control_tokens) checks.control_tokens();
  impl->notes = checks.notes();
  impl_ = std::move(impl);
}

TokenIds SuffixMaker::suffix(const std::vector<Call>& calls, const std::vector<std::string>& results,
                             std::int32_t last_id) const {
  TokenIds out = impl_->forms.suffix(calls, results);
  if (!out.empty() && out.front() == last_id && impl_->forms.is_special(last_id)) out.erase(out.begin());
  return out;
}

const TokenIds& SuffixMaker::turn_ends() const {
  return impl_->ends;
}

const std::vector<std::string>& SuffixMaker::notes() const {
  return impl_->notes;
}

}  // namespace hone::tools
