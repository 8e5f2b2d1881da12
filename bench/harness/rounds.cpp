// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "harness/rounds.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>

#include "harness/statistics.hpp"

namespace tenure::bench {
namespace {

struct pair {
  measurement own, base;
};

class rounds {
 public:
  rounds(const std::vector<entrant>& entrants, const std::map<std::string, std::function<measurement()>>& baselines,
         const round_options& how)
      : entrants_(entrants),
        baselines_(baselines),
        how_(how),
        pairs_(entrants.size()),
        failures_(entrants.size()),
        discarded_(entrants.size()) {}

  std::vector<outcome> run() {
    for (unsigned round = 0; round < how_.repeat; ++round) {
      shared_.clear();
      for (std::size_t turn = 0; turn < entrants_.size(); ++turn) {
        const std::size_t i = (turn + round) % entrants_.size();
        if (round < wanted_runs(i)) run_pair(i);
      }
    }
    for (unsigned repeated = 0; repeated < how_.repeat && discard_disturbed(); ++repeated) {
      shared_.clear();
      for (std::size_t i = 0; i < entrants_.size(); ++i) {
        if (pairs_[i].size() < wanted_runs(i)) run_pair(i);
      }
    }
    return results();
  }

 private:
  std::size_t wanted_runs(std::size_t i) const {
    const unsigned most = entrants_[i].most_runs;
    return most == 0 ? how_.repeat : std::min(most, how_.repeat);
  }

  void run_pair(std::size_t i) {
    if (!failures_[i].empty()) return;
    try {
      pair taken;
      const auto& name = entrants_[i].baseline;
      if (!name.empty()) taken.base = run_baseline(name);
      taken.own = entrants_[i].run();
      pairs_[i].push_back(std::move(taken));
    } catch (const std::exception& e) {
      failures_[i] = e.what();
    }
  }

  measurement run_baseline(const std::string& name) {
    if (how_.share_baseline) {
      const auto known = shared_.find(name);
      if (known != shared_.end()) return known->second;
    }
    measurement taken = baselines_.at(name)();
    base_runs_[name].push_back(taken);
    shared_[name] = taken;
    return taken;
  }

  bool is_far_off(const std::string& name, const measurement& base) const {
    std::vector<double> all;
    for (const auto& run : base_runs_.at(name)) all.push_back(run.at(how_.compared));
    const double median = summarize(std::move(all)).median;
    const double value = base.at(how_.compared);
    return value > median * how_.far_off || value < median / how_.far_off;
  }

  // Whether anything has to be repeated. Never discards the last pair of an entrant.
  bool discard_disturbed() {
    bool any = false;
    for (std::size_t i = 0; i < entrants_.size(); ++i) {
      const auto& name = entrants_[i].baseline;
      if (name.empty() || !failures_[i].empty()) continue;
      std::vector<pair> good;
      for (auto& p : pairs_[i]) {
        if (!is_far_off(name, p.base)) good.push_back(p);
      }
      if (good.size() == pairs_[i].size() || good.empty()) continue;
      discarded_[i] += static_cast<unsigned>(pairs_[i].size() - good.size());
      pairs_[i] = std::move(good);
      any = true;
    }
    return any;
  }

  std::vector<outcome> results() const {
    std::vector<outcome> all;
    for (std::size_t i = 0; i < entrants_.size(); ++i) {
      outcome one{entrants_[i].name, entrants_[i].baseline, {}, {}, discarded_[i], failures_[i]};
      for (const auto& p : pairs_[i]) {
        one.runs.push_back(p.own);
        if (!one.baseline.empty()) one.baseline_runs.push_back(p.base);
      }
      all.push_back(std::move(one));
    }
    for (const auto& [name, runs] : base_runs_) all.push_back({name, "", runs, {}, 0, ""});
    return all;
  }

  const std::vector<entrant>& entrants_;
  const std::map<std::string, std::function<measurement()>>& baselines_;
  const round_options& how_;
  std::vector<std::vector<pair>> pairs_;
  std::vector<std::string> failures_;
  std::vector<unsigned> discarded_;
  std::map<std::string, std::vector<measurement>> base_runs_;
  std::map<std::string, measurement> shared_;
};

template <class Combine>
std::vector<double> combined(const outcome& of, const std::string& metric, Combine combine) {
  std::vector<double> all;
  for (std::size_t i = 0; i < of.baseline_runs.size(); ++i) {
    const auto own = of.runs[i].find(metric), base = of.baseline_runs[i].find(metric);
    if (own != of.runs[i].end() && base != of.baseline_runs[i].end()) all.push_back(combine(own->second, base->second));
  }
  return all;
}

}  // namespace

std::vector<double> outcome::values(const std::string& metric) const {
  std::vector<double> all;
  for (const auto& run : runs) {
    const auto found = run.find(metric);
    if (found != run.end()) all.push_back(found->second);
  }
  return all;
}

std::vector<double> outcome::ratios(const std::string& metric) const {
  return combined(*this, metric, [](double own, double base) { return base != 0 ? own / base : 0; });
}

std::vector<double> outcome::differences(const std::string& metric) const {
  return combined(*this, metric, [](double own, double base) { return own - base; });
}

std::vector<outcome> run_rounds(const std::vector<entrant>& entrants,
                                const std::map<std::string, std::function<measurement()>>& baselines,
                                const round_options& how) {
  return rounds{entrants, baselines, how}.run();
}

}  // namespace tenure::bench
