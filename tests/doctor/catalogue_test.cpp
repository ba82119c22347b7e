// The catalogue is held against the sources: what it says is checked is checked, what it says is proven is
// tested.
#include "doctor/catalogue/catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/files/file.h"
#include "report/core_only/fault_pages.h"

namespace hone::doctor {
namespace catalogue_test {

namespace fs = base::fs;

const fs::path kSource = HONE_SOURCE_DIR;

TEST(Catalogue, HasEachClassOfTheFileOnceInOrder) {
  const std::string file = base::read_text(kSource / "src/doctor/catalogue/faults.txt");
  const std::regex heading("(^|\n)## ");
  const auto headings =
      std::distance(std::sregex_iterator(file.begin(), file.end(), heading), std::sregex_iterator());
  std::vector<std::string> codes = fault_codes();
  EXPECT_GE(codes.size(), 60U);
  EXPECT_EQ(codes.size(), static_cast<std::size_t>(headings));
  EXPECT_EQ(std::set<std::string>(codes.begin(), codes.end()).size(), codes.size());
  std::map<std::string, int> next;
  for (const std::string& code : codes) {
    const std::string room = code.substr(0, code.find('-'));
    EXPECT_EQ(std::stoi(code.substr(room.size() + 1)), ++next[room]) << code;
  }
}

TEST(Catalogue, EveryPageIsWhole) {
  for (const FaultClass& one : fault_classes()) {
    for (const auto text : {one.name, one.flag, one.when, one.symptom, one.cause, one.check, one.advice}) {
      EXPECT_FALSE(text.empty()) << one.code;
    }
    EXPECT_EQ(one.when.find_first_not_of("CPRX"), std::string_view::npos) << one.code;
    EXPECT_EQ(one.status == FaultStatus::kChecked, !one.places.empty()) << one.code;
    EXPECT_EQ(one.status != FaultStatus::kChecked, !one.why.empty()) << one.code;
    EXPECT_EQ(one.status == FaultStatus::kImpossible, !one.proof.empty()) << one.code;
  }
}

TEST(Catalogue, WhatIsImpossibleNamesATestThatExists) {
  for (const FaultClass& one : fault_classes()) {
    if (one.status != FaultStatus::kImpossible) continue;
    const std::string proof(one.proof);
    const std::size_t space = proof.find(' '), dot = proof.rfind('.');
    ASSERT_NE(space, std::string::npos) << one.code;
    const std::string suite = proof.substr(space + 1, dot - space - 1), name = proof.substr(dot + 1);
    const std::string text = base::read_text(kSource / proof.substr(0, space));
    EXPECT_TRUE(std::regex_search(text, std::regex("TEST(_F|_P)?\\(" + suite + ", " + name + "\\)")))
        << proof;
  }
}

TEST(Catalogue, WhatIsCheckedIsNamedWhereItIsChecked) {
  for (const FaultClass& one : fault_classes()) {
    std::istringstream places{std::string(one.places)};
    for (std::string place; places >> place;) {
      ASSERT_TRUE(fs::exists(kSource / place)) << one.code << ": " << place;
      EXPECT_NE(base::read_text(kSource / place).find(one.code), std::string::npos)
          << one.code << ": " << place;
    }
  }
}

// Every code in `text`: capitals that begin a class, a hyphen, two digits. std::regex takes seconds for all sources.
std::vector<std::string> codes_in(const std::string& text) {
  static const std::set<std::string> kAreas = {"GRAD", "NUM",  "DATA", "PREF", "RL",
                                               "TOOL", "DIST", "CKPT", "ENV",  "MEM"};
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  const auto is_digit = [](char c) { return '0' <= c && c <= '9'; };
  std::vector<std::string> out;
  for (std::size_t at = text.find('-'); at != std::string::npos; at = text.find('-', at + 1)) {
    if (at + 2 >= text.size() || !is_digit(text[at + 1]) || !is_digit(text[at + 2])) continue;
    if (at + 3 < text.size() && is_word(text[at + 3])) continue;
    std::size_t begin = at;
    while (begin > 0 && is_word(text[begin - 1])) --begin;
    if (kAreas.contains(text.substr(begin, at - begin))) out.push_back(text.substr(begin, at + 3 - begin));
  }
  return out;
}

TEST(Catalogue, NoCodeIsOutsideIt) {
  std::size_t found = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kSource / "src")) {
    if (!entry.is_regular_file()) continue;
    for (const std::string& code : codes_in(base::read_text(entry.path()))) {
      EXPECT_NE(find_fault(code), nullptr) << entry.path() << ": " << code;
      ++found;
    }
  }
  EXPECT_GT(found, 100U);
  EXPECT_EQ(codes_in("(RL-01) xRL-02 RL-033 NUM-12,"), (std::vector<std::string>{"RL-01", "NUM-12"}));
}

TEST(Catalogue, IsFoundInAnyCase) {
  EXPECT_EQ(find_fault("grad-02")->code, "GRAD-02");
  EXPECT_EQ(find_fault("GRAD-99"), nullptr);
}

TEST(FaultPages, AListAndAPage) {
  const std::string list = report::faults_list(fault_classes());
  for (const std::string& code : fault_codes())
    EXPECT_NE(list.find("\n" + code), code == "GRAD-01" ? 0 : std::string::npos);
  const std::string page = report::fault_page(*find_fault("NUM-06"), 0);
  EXPECT_TRUE(page.starts_with("NUM-06  merging and unmerging changes the frozen base\n")) << page;
  for (const char* label :
       {"  elsewhere  SILENT", "  symptom ", "  cause ", "  in hone    cannot happen: ", "  proof "}) {
    EXPECT_NE(page.find(label), std::string::npos) << page;
  }
}

TEST(FaultPages, WhatTestsHaveShown) {
  const auto shown =
      report::read_shown_faults("# made by x\n\nGRAD-02\tfrozen\tFAIL\nhealthy\tsft\tno FAIL\n", "shown.tsv");
  ASSERT_EQ(shown.size(), 2U);
  EXPECT_EQ(shown[0].name, "frozen");
  const std::string text = report::faults_markdown(fault_classes(), shown);
  EXPECT_NE(text.find("| frozen: FAIL |\n"), std::string::npos);
  EXPECT_NE(text.find("| sft | no FAIL |\n"), std::string::npos);
  EXPECT_THROW(report::read_shown_faults("GRAD-99\ta\tb\n", "shown.tsv"), base::UserError);
  EXPECT_THROW(report::read_shown_faults("GRAD-01\ta\n", "shown.tsv"), base::UserError);
}

TEST(FaultPages, TheCommittedFileIsWhatThePagesSay) {
  const fs::path shown = kSource / "tests" / "faults" / "shown.tsv";
  const std::string text = fs::exists(shown) ? base::read_text(shown) : "";
  EXPECT_EQ(base::read_text(kSource / "docs" / "faults.md"),
            report::faults_markdown(fault_classes(), report::read_shown_faults(text, shown.string())))
      << "build/hone faults --markdown --shown tests/faults/shown.tsv > docs/faults.md";
}

}  // namespace catalogue_test
}  // namespace hone::doctor
