#include "base/strings/suggest.h"

#include <algorithm>
#include <utility>

namespace hone::base {

namespace {

// Lower case, and '-' as '_': --learning-rate is near learning_rate.
char folded(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return c == '-' ? '_' : c;
}

std::string fold(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), folded);
  return out;
}

std::vector<std::string> words_of(const std::string& folded_name) {
  std::vector<std::string> out(1);
  for (const char c : folded_name) {
    if (c == '_') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

// system_prompt is no slip of share_prompt: of names with as many words each word has to be near.
bool words_are_near(const std::string& name, const std::string& other) {
  const std::vector<std::string> a = words_of(name), b = words_of(other);
  if (a.size() < 2 || a.size() != b.size()) return true;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const int limit = std::max(1, static_cast<int>(std::max(a[i].size(), b[i].size())) / 2);
    if (edit_distance(a[i], b[i]) > limit) return false;
  }
  return true;
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  const std::string x = fold(a);
  const std::string y = fold(b);
  // Three rows of the table: two back, one back, current.
  std::vector<int> before(y.size() + 1);
  std::vector<int> last(y.size() + 1);
  std::vector<int> now(y.size() + 1);
  for (std::size_t j = 0; j <= y.size(); ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= x.size(); ++i) {
    now[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= y.size(); ++j) {
      const int replace = last[j - 1] + (x[i - 1] == y[j - 1] ? 0 : 1);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, replace});
      if (i > 1 && j > 1 && x[i - 1] == y[j - 2] && x[i - 2] == y[j - 1]) {
        now[j] = std::min(now[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[y.size()];
}

std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> candidates,
                                       int most) {
  constexpr std::size_t kLongest = 256;  // the table is quadratic; longer names are not typing slips
  if (name.empty() || name.size() > kLongest || most <= 0) return {};
  const std::string wanted = fold(name);
  const int limit = std::max(1, static_cast<int>(name.size()) / 3);
  std::vector<std::pair<int, std::size_t>> near;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].empty() || candidates[i].size() > kLongest) continue;
    int distance = edit_distance(name, candidates[i]);
    // Part of a longer name ("output" of output_dir), or the other way round, counts as just near enough.
    const std::string other = fold(candidates[i]);
    const bool inside = (wanted.size() >= 4 && other.find(wanted) != std::string::npos) ||
                        (other.size() >= 4 && wanted.find(other) != std::string::npos);
    if (inside) distance = std::min(distance, limit);
    const bool close = distance <= limit && (inside || words_are_near(wanted, other));
    if (close) near.emplace_back(distance, i);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> out;
  for (const auto& [distance, i] : near) {
    if (out.size() == static_cast<std::size_t>(most)) break;
    if (std::find(out.begin(), out.end(), candidates[i]) == out.end()) out.push_back(candidates[i]);
  }
  return out;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  const std::vector<std::string> near = nearest_names(name, candidates);
  if (near.empty()) return {};
  std::string out = " Did you mean ";
  for (std::size_t i = 0; i < near.size(); ++i) {
    if (i > 0) out += i + 1 == near.size() ? " or " : ", ";
    out += "'" + near[i] + "'";
  }
  return out + "?";
}

}  // namespace hone::base
