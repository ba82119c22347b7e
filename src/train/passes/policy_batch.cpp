#include "train/passes/policy_batch.h"

#include <algorithm>

#include "base/error.h"

namespace hone::train {

namespace {

class Layout {
 public:
  Layout(PolicyPass& pass, RouterTokens routers)
      : pass_(pass), batch_(pass.batch), routed_(routers != RouterTokens::kNone) {}

  // Returns its number. Positions begin at `position`.
  std::int64_t add_segment(std::span<const std::int32_t> ids, std::int64_t position, std::int64_t row,
                           std::int64_t prefix) {
    if (routed_) pass_.router_weights.resize(pass_.router_weights.size() + ids.size(), 1);
    const auto begin = static_cast<std::int64_t>(batch_.ids.size());
    batch_.ids.insert(batch_.ids.end(), ids.begin(), ids.end());
    for (std::size_t i = 0; i < ids.size(); ++i)
      batch_.positions.push_back(position + static_cast<std::int64_t>(i));
    batch_.segments.push_back(
        {.begin = begin, .end = begin + static_cast<std::int64_t>(ids.size()), .row = row, .prefix = prefix});
    return static_cast<std::int64_t>(batch_.segments.size()) - 1;
  }

  // The drawn tokens of a completion: the first is predicted by token `before`, the others by the tokens from `begin` on.
  void score(const RolloutSample& sample, std::int64_t before, std::int64_t begin, std::int64_t sequence) {
    std::int64_t from = 0;
    for (std::size_t i = 0; i <= sample.given.size(); ++i) {
      const bool last = i == sample.given.size();
      const std::int64_t to = last ? std::ssize(sample.ids) : sample.given[i].begin;
      for (std::int64_t t = from; t < to; ++t) {
        pass_.source.push_back(t == 0 ? before : begin + t - 1);
        pass_.target.push_back(sample.ids[static_cast<std::size_t>(t)]);
        pass_.sequence.push_back(sequence);
      }
      if (!last) from = sample.given[i].end;
    }
  }

  // The last `count` tokens, of a completion that does not count.
  void leave_out(std::size_t count) { std::fill_n(pass_.router_weights.rbegin(), count, 0.0F); }
  // A prompt that stands for one more completion.
  void repeat(std::int64_t segment) {
    if (!routed_) return;
    const data::Segment& one = batch_.segments[static_cast<std::size_t>(segment)];
    for (std::int64_t t = one.begin; t < one.end; ++t) pass_.router_weights[static_cast<std::size_t>(t)] += 1;
  }

 private:
  PolicyPass& pass_;
  data::Batch& batch_;
  bool routed_;
};

}  // namespace

PolicyPass make_policy_pass(const RolloutBatch& rollouts, std::span<const std::size_t> samples,
                            bool share_prompt, std::int64_t row_base, RouterTokens routers) {
  PolicyPass pass;
  pass.samples.assign(samples.begin(), samples.end());
  std::stable_sort(pass.samples.begin(), pass.samples.end(), [&](std::size_t a, std::size_t b) {
    return rollouts.samples[a].prompt < rollouts.samples[b].prompt;
  });
  Layout layout(pass, routers);
  const std::size_t unread = routers == RouterTokens::kNone ? 1 : 0;  // of a completion's tokens
  std::int64_t prompt_segment = -1;
  for (std::size_t i = 0; i < pass.samples.size(); ++i) {
    const RolloutSample& sample = rollouts.samples[pass.samples[i]];
    const std::vector<std::int32_t>& prompt = rollouts.prompts[sample.prompt].ids;
    const auto length = static_cast<std::int64_t>(prompt.size());
    const std::int64_t row = row_base + static_cast<std::int64_t>(pass.samples[i]);
    const std::span<const std::int32_t> ids = sample.ids;
    const auto sequence = static_cast<std::int64_t>(i);
    base::require(!ids.empty() && length > 0, "make_policy_pass", "a prompt and a completion with tokens");
    const std::span<const std::int32_t> read = ids.first(ids.size() - unread);
    const bool counts = routers != RouterTokens::kWithoutTruncated || !sample.truncated;
    if (!share_prompt) {
      std::vector<std::int32_t> whole = prompt;
      whole.insert(whole.end(), read.begin(), read.end());
      const auto begin = static_cast<std::int64_t>(pass.batch.ids.size());
      layout.add_segment(whole, 0, row, data::kNoPrefix);
      if (!counts) layout.leave_out(read.size());
      layout.score(sample, begin + length - 1, begin + length, sequence);
      continue;
    }
    const bool first = i == 0 || rollouts.samples[pass.samples[i - 1]].prompt != sample.prompt;
    if (first) {
      // The key of the prompt's dropout: the group's first sample of all, not of this pass.
      const auto group = std::find_if(rollouts.samples.begin(), rollouts.samples.end(),
                                      [&](const RolloutSample& one) { return one.prompt == sample.prompt; });
      prompt_segment =
          layout.add_segment(prompt, 0, row_base + (group - rollouts.samples.begin()), data::kNoPrefix);
    } else {
      layout.repeat(prompt_segment);
    }
    const std::int64_t before = pass.batch.segments[static_cast<std::size_t>(prompt_segment)].end - 1;
    const auto begin = static_cast<std::int64_t>(pass.batch.ids.size());
    if (!read.empty()) layout.add_segment(read, length, row, prompt_segment);
    if (!counts) layout.leave_out(read.size());
    layout.score(sample, before, begin, sequence);
  }
  return pass;
}

std::vector<std::vector<std::size_t>> compose_passes(const RolloutBatch& rollouts,
                                                     std::span<const std::size_t> samples, PassLimit limit) {
  std::vector<std::vector<std::size_t>> out;
  std::int64_t tokens = 0;  // of the newest pass
  const auto fits = [&](std::size_t sequences, std::int64_t more) {
    return !out.empty() && static_cast<std::int64_t>(out.back().size() + sequences) <= limit.sequences &&
           (limit.tokens == 0 || tokens + more <= limit.tokens);
  };
  for (std::size_t begin = 0; begin < samples.size();) {
    const std::size_t prompt = rollouts.samples[samples[begin]].prompt;
    const auto prompt_tokens = static_cast<std::int64_t>(rollouts.prompts[prompt].ids.size());
    const auto length = [&](std::size_t i) {
      return static_cast<std::int64_t>(rollouts.samples[samples[i]].ids.size());
    };
    std::size_t end = begin;
    std::int64_t of_group = prompt_tokens;
    for (; end < samples.size() && rollouts.samples[samples[end]].prompt == prompt; ++end)
      of_group += length(end);
    bool begins = !fits(end - begin, of_group);  // a new pass, which the prompt is not yet in
    if (!begins) tokens += prompt_tokens;
    for (; begin < end; ++begin) {
      if (begins || !fits(1, length(begin))) {
        out.emplace_back();
        tokens = prompt_tokens;
        begins = false;
      }
      out.back().push_back(samples[begin]);
      tokens += length(begin);
    }
  }
  return out;
}

}  // namespace hone::train
