#include "rollout/former_texts.h"

#include <algorithm>
#include <utility>

#include "rollout/drafts.h"

namespace hone::rollout {

void FormerTexts::keep(std::int64_t key, std::span<const std::int32_t> prompt,
                       const std::vector<std::span<const std::int32_t>>& completions) {
  const auto place = texts_.find(key);
  if (place != texts_.end()) {
    for (const auto& text : *place->second) bytes_ -= former_bytes(std::ssize(text));
    texts_.erase(place);
  }
  const auto begin = prompt.last(std::min(prompt.size(), kDraftMatches.front()));
  Texts kept;
  for (const std::span<const std::int32_t> completion : completions) {
    const std::int64_t size = former_bytes(std::ssize(begin) + std::ssize(completion));
    if (completion.empty() || bytes_ + size > most_) continue;
    bytes_ += size;
    std::vector<std::int32_t>& text = kept.emplace_back();
    text.reserve(begin.size() + completion.size());
    text.insert(text.end(), begin.begin(), begin.end());
    text.insert(text.end(), completion.begin(), completion.end());
  }
  if (!kept.empty()) texts_.emplace(key, std::make_shared<const Texts>(std::move(kept)));
}

std::shared_ptr<const Texts> FormerTexts::find(std::int64_t key) const {
  const auto place = texts_.find(key);
  return place == texts_.end() ? nullptr : place->second;
}

}  // namespace hone::rollout
