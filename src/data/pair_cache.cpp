#include "data/pair_cache.h"

#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace hone::data {

using base::Json;

namespace {

// A struct with a new field has another size: the field belongs into the key (or into the facts).
static_assert(sizeof(PreferenceOptions) == 40 && sizeof(PreferenceFacts) == 152,
              "the key and the facts have every field");

constexpr std::uint8_t kOwnsLast = 4;  // the context's last token is the completion's

void put(const std::vector<std::int32_t>& ids, std::uint8_t part, Example& out) {
  out.ids.insert(out.ids.end(), ids.begin(), ids.end());
  out.supervised.insert(out.supervised.end(), ids.size(), part);
}

void put(const PreferenceSequence& side, std::uint8_t part, Example& out) {
  put(side.context, part, out);
  const bool owns = side.completion > static_cast<std::int64_t>(side.scored.size());
  put(side.scored, static_cast<std::uint8_t>(part + 1 + (owns ? kOwnsLast : 0)), out);
}

PreferencePair pair_of(const ExampleView& kept) {
  PreferencePair out = {.row = kept.row, .chosen = {}, .rejected = {}};
  for (std::size_t i = 0; i < kept.ids.size(); ++i) {
    const std::uint8_t part = kept.supervised[i] % kOwnsLast;
    PreferenceSequence& side = part < 2 ? out.chosen : out.rejected;
    (part % 2 == 0 ? side.context : side.scored).push_back(kept.ids[i]);
    if (part % 2 == 1 && side.completion == 0) side.completion = kept.supervised[i] >= kOwnsLast ? 1 : 0;
  }
  out.chosen.completion += static_cast<std::int64_t>(out.chosen.scored.size());
  out.rejected.completion += static_cast<std::int64_t>(out.rejected.scored.size());
  return out;
}

template <typename Facts, typename Field>
void each_pair_fact(Facts& facts, const Field& field) {
  field("rows", facts.rows);
  field("kept", facts.kept);
  field("implicit", facts.implicit);
  field("conversational", facts.conversational);
  field("tokens", facts.tokens);
  field("completion_tokens", facts.completion_tokens);
  field("pairs_cut", facts.pairs_cut);
  field("prompts_too_long", facts.prompts_too_long);
  field("too_long", facts.too_long);
  field("equal", facts.equal);
  field("equal_by_template", facts.equal_by_template);
  field("equal_example", facts.equal_example);
  field("boundary_mismatches", facts.boundary_mismatches);
  field("longest", facts.longest);
  field("longest_prompt", facts.longest_prompt);
  field("mean_chosen", facts.mean_chosen);
  field("mean_rejected", facts.mean_rejected);
}

}  // namespace

std::string pair_key(const base::RowFiles& files, const TokenMaker& maker, const std::string& what,
                     const PreferenceOptions& options) {
  return token_key(
      files, maker,
      Json{{"pairs", what},
           {"options",
            {options.max_length, options.max_prompt_length, options.keep_end, options.vocab_size}}});
}

std::optional<PreferenceData> read_pairs(const TokenCache& cache) {
  const std::optional<TokenFile> file = cache.open();
  if (!file) return std::nullopt;
  PreferenceData out;
  try {
    const Json facts = base::parse_json(file->facts, "token cache");
    each_pair_fact(out.facts, [&facts](const char* name, auto& value) { facts.at(name).get_to(value); });
  } catch (const Json::exception&) {  // facts of another form
    cache.remove();
    return std::nullopt;
  }
  out.pairs.reserve(file->examples.size());
  file->examples.for_each([&out](const ExampleView& kept) { out.pairs.push_back(pair_of(kept)); });
  return out;
}

bool keep_pairs(const TokenCache& cache, const PreferenceData& data) {
  if (cache.file().empty() || data.facts.tokens < cache.place().least_tokens) return false;
  ExamplePlace place = cache.place();
  place.most_memory = std::numeric_limits<std::size_t>::max();  // the pairs are in memory anyway
  ExampleWriter writer(std::move(place));
  for (const PreferencePair& pair : data.pairs) {
    Example one = {.row = pair.row, .ids = {}, .supervised = {}};
    put(pair.chosen, 0, one);
    put(pair.rejected, 2, one);
    writer.add(view(one));
  }
  Json facts = Json::object();
  each_pair_fact(data.facts, [&facts](const char* name, const auto& value) { facts[name] = value; });
  (void)writer.finish(base::dump_json(facts));
  return cache.kept(writer);
}

}  // namespace hone::data
