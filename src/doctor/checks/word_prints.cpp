#include "doctor/checks/word_prints.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <span>
#include <unordered_map>

#include "base/hash.h"

namespace hone::doctor {

namespace {

constexpr std::size_t kTwinRun = 5;      // words
constexpr std::size_t kLeastRuns = 8;    // of a text beside the task's wording
constexpr double kWordingShare = 0.1;    // of the texts
constexpr std::size_t kWordingRows = 3;  // at least: two twins of few texts are no wording
constexpr double kSimilar = 0.8;
constexpr std::size_t kBands = 16, kBandHashes = 4;
constexpr std::size_t kMostCandidates = 32;  // compared exactly, of one text

using Runs = std::vector<std::uint32_t>;  // sorted, each once

std::uint64_t scrambled(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EB;
  return value ^ (value >> 31U);
}

// The runs of every text without the task's wording.
std::vector<Runs> own_runs(const std::vector<std::string>& words) {
  std::vector<Runs> out;
  std::unordered_map<std::uint32_t, std::size_t> texts;
  for (const std::string& one : words) {
    Runs runs = word_runs(one, kTwinRun);
    std::sort(runs.begin(), runs.end());
    runs.erase(std::unique(runs.begin(), runs.end()), runs.end());
    for (const std::uint32_t run : runs) texts[run] += 1;
    out.push_back(std::move(runs));
  }
  const auto most =
      std::max(kWordingRows, static_cast<std::size_t>(kWordingShare * static_cast<double>(words.size())));
  for (Runs& runs : out) std::erase_if(runs, [&](std::uint32_t run) { return texts[run] > most; });
  return out;
}

std::array<std::uint64_t, kBands> bands_of(const Runs& runs) {
  std::array<std::uint64_t, kBands> out{};
  for (std::size_t band = 0; band < kBands; ++band) {
    std::uint64_t key = band + 1;
    for (std::size_t hash = 0; hash < kBandHashes; ++hash) {
      const std::uint64_t salt = scrambled(band * kBandHashes + hash + 1);
      std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
      for (const std::uint32_t run : runs) least = std::min(least, scrambled(run ^ salt));
      key = scrambled(key ^ least);
    }
    out[band] = key;
  }
  return out;
}

double similarity(const Runs& a, const Runs& b) {
  Runs both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return static_cast<double>(both.size()) / static_cast<double>(a.size() + b.size() - both.size());
}

}  // namespace

std::string words_of(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_word =
        std::isalnum(byte) != 0 || byte >= 0x80 || c == '+' || c == '-' || c == '*' || c == '/';
    if (is_word) {
      out += static_cast<char>(std::tolower(byte));
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

std::vector<std::uint32_t> word_runs(std::string_view words, std::size_t length) {
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i == 0 || words[i - 1] == ' ') begins.push_back(i);
  }
  std::vector<std::uint32_t> out;
  for (std::size_t i = 0; i + length <= begins.size(); ++i) {
    const std::size_t end = i + length < begins.size() ? begins[i + length] - 1 : words.size();
    const std::uint64_t hash = base::hash64(words.substr(begins[i], end - begins[i]));
    out.push_back(static_cast<std::uint32_t>(hash ^ (hash >> 32U)));
  }
  return out;
}

std::vector<std::optional<std::size_t>> near_twins(const std::vector<std::string>& words) {
  const std::vector<Runs> all = own_runs(words);
  std::vector<std::optional<std::size_t>> out(words.size());
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> buckets;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (all[i].size() < kLeastRuns) continue;
    std::vector<std::size_t> tried;
    for (const std::uint64_t band : bands_of(all[i])) {
      std::vector<std::size_t>& others = buckets[band];
      for (const std::size_t other : others) {
        if (tried.size() >= kMostCandidates || std::ranges::find(tried, other) != tried.end()) continue;
        tried.push_back(other);
        if (similarity(all[i], all[other]) >= kSimilar && (!out[i] || other < *out[i])) out[i] = other;
      }
      if (others.size() < kMostCandidates) others.push_back(i);
    }
  }
  return out;
}

}  // namespace hone::doctor
