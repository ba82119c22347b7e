#include "text/gguf/gguf_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include "base/error.h"

namespace hone::text {
namespace {

using base::Json;

constexpr const char* kSpace = "\u2581";
constexpr std::size_t kLongestPiece = 1024;
constexpr std::size_t kMostWork = std::size_t{1}
                                  << 28;  // bytes of all parts; Gemma 3's 262,144 tokens: 20 MB

bool starts_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

struct Ranked {
  double score = 0;
  std::size_t left_length = 0, right_length = 0;  // characters
  std::size_t token = 0, left_id = 0, right_id = 0;
  std::size_t cut = 0;  // bytes of the left part

  // Python's sorted(reverse=True) keeps the order of equals
  bool operator<(const Ranked& other) const {
    return std::tuple(-score, -static_cast<double>(left_length), -static_cast<double>(right_length), token,
                      left_id, right_id) < std::tuple(-other.score, -static_cast<double>(other.left_length),
                                                      -static_cast<double>(other.right_length), other.token,
                                                      other.left_id, other.right_id);
  }
};

Json replace(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

}  // namespace

PieceForm piece_form(std::string_view architecture, std::optional<bool> space_prefix,
                     std::string_view scheme) {
  if (!space_prefix.value_or(!merges_by_position(architecture))) return PieceForm::kAsItIs;
  for (const PieceForm form : {PieceForm::kSpaceFirst, PieceForm::kSpaceIfMissing}) {
    if (scheme == prepend_scheme(form)) return form;
  }
  return PieceForm::kSpaceBefore;
}

std::string prepend_scheme(PieceForm form) {
  if (form == PieceForm::kSpaceFirst) return "first";
  return form == PieceForm::kSpaceIfMissing ? "always" : "";
}

bool merges_by_position(std::string_view architecture) {
  return architecture == "gemma" || architecture == "gemma2" || architecture == "gemma3";
}

namespace {

using Ids = std::unordered_map<std::string_view, std::size_t>;

// Normal pieces by their text.
Ids ids_of(std::span<const std::string> tokens, std::span<const double> scores,
           const std::vector<bool>& normal, const std::string& where) {
  Ids ids;
  ids.reserve(tokens.size());
  std::size_t work = 0;
  const auto refuse = [&](std::size_t id, const std::string& expected, const std::string& found) {
    throw base::UserError({.where = where + fmt::format(", token {}", id),
                           .expected = expected,
                           .found = found,
                           .cause = "the file is damaged",
                           .fix = "download or convert the file again"});
  };
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (!normal[id]) continue;
    const std::size_t size = tokens[id].size();
    if (size > kLongestPiece)
      refuse(id, fmt::format("a piece of at most {} bytes", kLongestPiece), fmt::format("{} bytes", size));
    if (!std::isfinite(scores[id])) refuse(id, "a score that is a number", fmt::format("{}", scores[id]));
    work += size * size;
    if (work > kMostWork) refuse(id, "a vocabulary of short pieces", "too many long ones before it");
    ids[tokens[id]] = id;
  }
  return ids;
}

// The order of neighbors that make the same piece says nothing: sorted, lists that differ in it are equal.
void sort_each_piece(std::vector<Merge>& merges, const Ids& ids) {
  const auto piece = [&ids](const Merge& merge) { return ids.at(merge.first + merge.second); };
  for (auto begin = merges.begin(); begin != merges.end();) {
    const auto end = std::find_if(begin, merges.end(),
                                  [&, id = piece(*begin)](const Merge& merge) { return piece(merge) != id; });
    std::sort(begin, end);
    begin = end;
  }
}

}  // namespace

std::vector<Merge> merges_of_pieces(std::span<const std::string> tokens, std::span<const double> scores,
                                    const std::vector<bool>& normal, const std::string& where) {
  const auto ids = ids_of(tokens, scores, normal, where);
  std::vector<Ranked> ranked;
  for (const auto& [token, id] : ids) {
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      if (!starts_character(token[cut])) continue;
      const auto left = ids.find(token.substr(0, cut));
      if (left == ids.end()) continue;
      const auto right = ids.find(token.substr(cut));
      if (right == ids.end()) continue;
      ranked.push_back({.score = scores[id],
                        .left_length = characters(left->first),
                        .right_length = characters(right->first),
                        .token = id,
                        .left_id = left->second,
                        .right_id = right->second,
                        .cut = cut});
    }
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<Merge> out;
  out.reserve(ranked.size());
  for (const Ranked& merge : ranked) {
    const std::string& token = tokens[merge.token];
    out.emplace_back(token.substr(0, merge.cut), token.substr(merge.cut));
  }
  return out;
}

std::optional<std::vector<float>> scores_of_merges(std::span<const std::string> tokens,
                                                   std::span<const Merge> merges,
                                                   const std::vector<bool>& normal,
                                                   const std::string& where) {
  Ids ids;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (normal[id]) ids[tokens[id]] = id;
  }
  std::vector<Merge> kept;        // what is left when tokens that are found in the text do not merge
  std::vector<std::size_t> made;  // by each of them
  std::vector<std::optional<std::size_t>> last(tokens.size());  // the place of a token's last merge in `kept`
  for (const Merge& merge : merges) {
    const auto token = ids.find(merge.first + merge.second);
    if (token == ids.end() || !ids.contains(merge.first) || !ids.contains(merge.second)) continue;
    last[token->second] = kept.size();
    made.push_back(token->second);
    kept.push_back(merge);
  }
  // Tokens whose merges alternate have one score, as Llama 2's runs of spaces.
  std::vector<double> scores(tokens.size());
  double score = 0;
  std::size_t alternate_until = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (i > alternate_until) --score;
    alternate_until = std::max(alternate_until, *last[made[i]]);
    scores[made[i]] = score;
  }
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (normal[id] && !last[id]) scores[id] = --score;
  }
  std::vector<Merge> stood_for = merges_of_pieces(tokens, scores, normal, where);
  sort_each_piece(stood_for, ids);
  sort_each_piece(kept, ids);
  if (stood_for != kept) return std::nullopt;
  return std::vector<float>(scores.begin(), scores.end());
}

std::string with_spaces(std::string_view piece) {
  std::string out(piece);
  for (std::size_t at = out.find(kSpace); at != std::string::npos; at = out.find(kSpace, at))
    out.replace(at, std::string_view(kSpace).size(), " ");
  return out;
}

std::optional<std::string> run_of_spaces(std::string_view token) {
  if (token.empty() || token.find_first_not_of(' ') != std::string_view::npos) return std::nullopt;
  std::string out;
  for (std::size_t i = 0; i < token.size(); ++i) out += kSpace;
  return out;
}

PieceParts piece_parts(PieceForm form) {
  const Json spaces = replace(" ", kSpace);
  Json decoders = Json::array({replace(kSpace, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (form != PieceForm::kAsItIs)
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  PieceParts out;
  out.decoder = {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
  switch (form) {
    case PieceForm::kSpaceFirst:
    case PieceForm::kSpaceIfMissing:
      out.pre_tokenizer = {{"type", "Metaspace"},
                           {"replacement", kSpace},
                           {"prepend_scheme", prepend_scheme(form)},
                           {"split", false}};
      break;
    case PieceForm::kSpaceBefore:
      out.normalizer = {
          {"type", "Sequence"},
          {"normalizers", Json::array({Json{{"type", "Prepend"}, {"prepend", kSpace}}, spaces})}};
      break;
    case PieceForm::kAsItIs:
      out.normalizer = spaces;
      break;
  }
  return out;
}

}  // namespace hone::text
