// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Rounds: contenders and their baselines take turns, so that what disturbs the machine disturbs them alike.
//
// Every run of a contender comes right after a run of its baseline, and its ratio is against that very run. A pair
// whose baseline run lies far from the median of that baseline was disturbed: it is discarded and repeated, at most as
// often as there are rounds.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tenure::bench {

// One run: values by metric, e.g. "tx_per_s".
using measurement = std::map<std::string, double>;

struct entrant {
  std::string name;
  std::function<measurement()> run;
  std::string baseline;    // a key of the baselines; "": none
  unsigned most_runs = 0;  // for one that takes minutes; 0: as often as all
};

struct round_options {
  unsigned repeat = 5;
  double far_off = 1.5;         // a baseline run this many times above or below the median is far off
  bool share_baseline = false;  // one baseline run a round for all, for short programs
  std::string compared;         // the metric that ratios are made of
};

struct outcome {
  std::string name, baseline;
  std::vector<measurement> runs;
  std::vector<measurement> baseline_runs;  // of the same index as `runs`; empty without a baseline
  unsigned discarded = 0;
  std::string failure;  // what an exception said; runs are then incomplete
  // The values of one metric in all runs that have it.
  [[nodiscard]] std::vector<double> values(const std::string& metric) const;
  // own / baseline of the same round, and own - baseline.
  [[nodiscard]] std::vector<double> ratios(const std::string& metric) const;
  [[nodiscard]] std::vector<double> differences(const std::string& metric) const;
};

// Outcomes in the order of the entrants, then one for each baseline with all its runs, those discarded included.
[[nodiscard]] std::vector<outcome> run_rounds(const std::vector<entrant>& entrants,
                                              const std::map<std::string, std::function<measurement()>>& baselines,
                                              const round_options& how);

}  // namespace tenure::bench
