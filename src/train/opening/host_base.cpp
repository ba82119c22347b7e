#include "train/opening/host_base.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/files/release_pages.h"
#include "base/strings/plural.h"
#include "parallel/network.h"
#include "parallel/pack.h"
#include "train/opening/open_run.h"

namespace hone::train {

namespace {

constexpr const char* kWhere = "train::find_shared_base";

void close_file(int& file) {
  if (file >= 0) close(file);
  file = -1;
}

// What each rank says before the ranks of a host know each other.
struct Offer {
  std::string machine, address;
};

std::vector<Offer> gather_offers(parallel::Ranks& ranks, int file) {
  std::string said;
  parallel::append_text(said, parallel::machine_name());
  parallel::append_text(said, file < 0 ? std::string() : model::SharedBase::address_of(file));
  std::vector<Offer> out;
  for (const std::string& bytes : ranks.gather(said, "one base a host")) {
    std::string_view rest = bytes;
    Offer& one = out.emplace_back();
    one.machine = parallel::take_text(rest, kWhere);
    one.address = parallel::take_text(rest, kWhere);
  }
  return out;
}

}  // namespace

void find_shared_base(config::Plan& plan, parallel::Ranks& ranks) {
  if (!ranks.several()) return;
  int own = model::SharedBase::make();
  std::string why = own < 0 ? std::strerror(errno) : "";
  const std::vector<Offer> offers = gather_offers(ranks, own);
  const auto rank = static_cast<std::size_t>(ranks.rank());
  std::vector<std::size_t> here;  // the ranks of this host
  for (std::size_t r = 0; r < offers.size(); ++r) {
    if (offers[r].machine == offers[rank].machine) here.push_back(r);
  }
  config::SharedBasePlan found{.leads = here.front() == rank,
                               .ranks = static_cast<std::int64_t>(here.size())};
  if (found.leads) {
    found.descriptor = std::exchange(own, -1);
  } else {
    close_file(own);  // only now: a descriptor may get the number of the leader's
    found.descriptor = model::SharedBase::open(offers[here.front()].address);
    why = found.descriptor < 0 ? std::strerror(errno) : "";
  }
  if (here.size() == 1) why.clear();
  const std::vector<std::string> said = ranks.gather(why, "one base a host, opened");
  bool all_have = true;
  for (const std::size_t r : here) all_have = all_have && said[r].empty();
  for (std::size_t r = 0; r < said.size(); ++r) {
    if (said[r].empty()) continue;
    plan.notes.push_back("each rank on host " + ranks.hosts().at(r) + " has its own copy of the base: rank " +
                         std::to_string(r) + " cannot share one (" + said[r] + ")");
    break;
  }
  if (here.size() == 1 || !all_have) {
    close_file(found.descriptor);
    return;
  }
  plan.shared_base = found;
}

HostBase::HostBase(OpenedRun& run, bool keeps_base) {
  config::Plan& plan = run.plan;
  if (plan.shared_base.descriptor < 0) return;
  using Part = model::SharedBase::Part;
  shared_ = std::make_unique<model::SharedBase>(std::exchange(plan.shared_base.descriptor, -1),
                                                plan.shared_base.leads ? Part::kLeads : Part::kFollows,
                                                std::chrono::seconds(plan.ddp_timeout));
  // PiSSA takes from the base; full fine-tuning replaces it.
  late_ = plan.use_peft ? plan.init_lora_weights == config::LoraInit::kPissa : !keeps_base;
}

void HostBase::finish(OpenedRun& run) {
  if (shared_ == nullptr) return;
  if (late_) run.model->share(*shared_);
  SharedBaseFacts& facts = run.shared_base;
  facts.bytes = shared_->bytes();
  facts.ranks = run.plan.shared_base.ranks;
  facts.difference = shared_->difference();
  const std::string size = base::gigabytes(facts.bytes);
  const std::string whose = "the " + base::counted(facts.ranks, "rank") + " of this host share ";
  if (!shared_->stopped().empty()) {
    run.start.notes.push_back(whose + "only " + size + " of the base: " + shared_->stopped());
  } else if (facts.bytes > 0) {
    run.start.notes.push_back(whose + "one copy of the base, " + size);
  }
  shared_.reset();
  base::return_freed_memory();
}

}  // namespace hone::train
