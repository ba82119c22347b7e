#include "doctor/probes/drawn_rows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/rng.h"

namespace hone::doctor {

namespace {

using base::Json;

constexpr std::uint64_t kSeed = 0xD0C7;
constexpr std::uint64_t kStep = 0xFFFFFE00;    // apart from the run's own order
constexpr std::size_t kRowsOfStrata = 20'000;  // of the shuffle, in which the values of columns are counted
constexpr std::size_t kLabelBytes = 64;        // longer texts are no label

std::vector<std::size_t> shuffled(const std::vector<std::size_t>& places, std::uint64_t draw) {
  const base::Stream stream(kSeed, base::Purpose::kOrder, kStep, draw);
  std::vector<std::pair<std::uint32_t, std::size_t>> keyed;
  keyed.reserve(places.size());
  for (const std::size_t place : places) keyed.emplace_back(stream.bits(place), place);
  std::sort(keyed.begin(), keyed.end());
  std::vector<std::size_t> out;
  out.reserve(keyed.size());
  for (const auto& one : keyed) out.push_back(one.second);
  return out;
}

// The value as a label; of long texts, lists and objects only that there is one.
std::string label_of(const Json& columns, const std::string& name) {
  const auto found = columns.find(name);
  if (found == columns.end() || found->is_null()) return "";
  if (found->is_structured()) return "=";
  const std::string text = found->is_string() ? found->get<std::string>() : base::dump_json(*found);
  return "=" + (text.size() > kLabelBytes ? std::string() : text);
}

// Columns with 2 to `most` labels; of the others, whether the cell is empty.
class Strata {
 public:
  Strata(const train::PolicyPrompts& prompts, const std::vector<std::size_t>& order, std::size_t most)
      : prompts_(prompts) {
    for (std::size_t i = 0; i < std::min(order.size(), kRowsOfStrata); ++i) {
      for (const auto& [name, value] : prompts.rows[order[i]].columns.items()) {
        std::set<std::string>& labels = labels_[name];
        if (labels.size() <= most) labels.insert(label_of(prompts.rows[order[i]].columns, name));
      }
    }
    for (const auto& [name, labels] : labels_) {
      if (labels.size() >= 2) columns_.emplace_back(name, labels.size() <= most);
    }
  }

  // Whether the row has a label that none before it had; it counts from now on.
  bool is_new(std::size_t row) {
    bool out = false;
    for (const auto& [name, whole] : columns_) {
      std::string label = label_of(prompts_.rows[row].columns, name);
      if (!whole && !label.empty()) label = "=";
      out = seen_.emplace(name, std::move(label)).second || out;
    }
    return out;
  }

 private:
  const train::PolicyPrompts& prompts_;
  std::map<std::string, std::set<std::string>> labels_;
  std::vector<std::pair<std::string, bool>> columns_;  // the name, and whether each label is a stratum
  std::set<std::pair<std::string, std::string>> seen_;
};

}  // namespace

std::vector<std::size_t> draw_rows_of(const train::PolicyPrompts& prompts,
                                      const std::vector<std::size_t>& places, std::size_t most,
                                      std::uint64_t draw) {
  if (places.size() <= most) return places;
  const std::vector<std::size_t> order = shuffled(places, draw);
  Strata strata(prompts, order, most);
  std::vector<std::size_t> out, rest;
  for (const std::size_t row : order) {
    if (out.size() == most) break;
    const bool looked = out.size() + rest.size() < kRowsOfStrata;
    (looked && strata.is_new(row) ? out : rest).push_back(row);
  }
  for (std::size_t i = 0; i < rest.size() && out.size() < most; ++i) out.push_back(rest[i]);
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::size_t> shuffled_places(std::size_t count, std::uint64_t draw) {
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return shuffled(all, draw);
}

std::vector<std::size_t> draw_rows(const train::PolicyPrompts& prompts, std::size_t most,
                                   std::uint64_t draw) {
  std::vector<std::size_t> all(prompts.rows.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return draw_rows_of(prompts, all, most, draw);
}

}  // namespace hone::doctor
