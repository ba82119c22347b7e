// Which processes there are, as /proc tells it.
#pragma once

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace hone::rewards {

struct ProcessFacts {
  int pid = 0;
  char state = '?';
  int parent = 0;
};

// Pid 0: there is none.
inline ProcessFacts process_facts(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t end = line.rfind(')');
  if (end == std::string::npos) return {};
  ProcessFacts facts{.pid = std::stoi(pid)};
  facts.state = line.at(end + 2);
  facts.parent = std::stoi(line.substr(end + 4));
  return facts;
}

inline std::vector<ProcessFacts> our_children() {
  std::vector<ProcessFacts> children;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const ProcessFacts facts = process_facts(name);
    if (facts.pid != 0 && facts.parent == ::getpid()) children.push_back(facts);
  }
  return children;
}

inline bool runs(int pid) {
  const ProcessFacts facts = process_facts(std::to_string(pid));
  return facts.pid != 0 && facts.state != 'Z';
}

inline bool comes_true(const std::function<bool()>& condition, double seconds = 20) {
  for (int i = 0; i < static_cast<int>(seconds * 50); ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return condition();
}

inline int number_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  int number = 0;
  file >> number;
  return number;
}

}  // namespace hone::rewards
