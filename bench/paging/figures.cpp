// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "paging/figures.hpp"

namespace tenure::bench::paging {

void report(const program_options& how, const figure& what, const outcome& of, std::vector<std::string>& row) {
  result line;
  line.bench = "paging";
  line.contender = what.contender;
  line.case_name = what.case_name;
  line.metric = what.metric;
  line.unit = what.unit;
  line.value = summarize(of.values(what.metric));
  line.extra = {{"kernel", how.machine.kernel},
                {"file_system", how.machine.file_system},
                {"huge_pages", how.machine.huge_pages},
                {"memory_limit", how.memory},
                {"quick", how.quick},
                {"discarded", of.discarded}};
  row.insert(row.end(), {number(line.value.median), range(line.value)});
  if (what.compared) {
    const auto ratios = of.ratios(what.metric);
    const summary ratio = summarize(ratios);
    if (!ratios.empty()) {
      line.of = of.baseline;
      line.ratio = ratio.median;
      line.extra["ratio_min"] = ratio.min;
      line.extra["ratio_max"] = ratio.max;
    }
    row.insert(row.end(), {ratios.empty() ? "" : number(ratio.median), ratios.empty() ? "" : range(ratio)});
  }
  how.json.add(line);
}

}  // namespace tenure::bench::paging
