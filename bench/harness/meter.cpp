// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "harness/meter.hpp"

#include <fstream>
#include <sstream>
#include <string>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace tenure::bench {
namespace {

double seconds_of(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; }

}  // namespace

meter::meter(const std::filesystem::path& on) {
  struct stat found = {};
  if (!on.empty() && ::stat(on.c_str(), &found) == 0) {
    std::ostringstream path;
    path << "/sys/dev/block/" << major(found.st_dev) << ':' << minor(found.st_dev) << "/stat";
    device_stat_ = path.str();
  }
  start_ = take();
}

// Fields of /sys/dev/block/M:m/stat (Documentation/block/stat.rst): 7 is sectors written, 16 flushes.
meter::device_counts meter::read_device() const {
  device_counts found;
  if (device_stat_.empty()) return found;
  std::ifstream in{device_stat_};
  std::uint64_t value = 0;
  for (int field = 1; field <= 16 && in >> value; ++field) {
    if (field == 7) found.written = value * 512;
    if (field == 16) found.flushes = value;
  }
  return found;
}

meter::reading meter::take() const {
  rusage used = {};
  ::getrusage(RUSAGE_SELF, &used);
  return {std::chrono::steady_clock::now(), seconds_of(used.ru_utime), seconds_of(used.ru_stime), read_device()};
}

cost meter::read() const {
  const reading now = take();
  cost spent;
  spent.seconds = std::chrono::duration<double>(now.when - start_.when).count();
  spent.user_seconds = now.user - start_.user;
  spent.system_seconds = now.system - start_.system;
  const auto& [written, flushes] = now.device;
  if (written && start_.device.written) spent.device_bytes_written = *written - *start_.device.written;
  if (flushes && start_.device.flushes) spent.device_flushes = *flushes - *start_.device.flushes;
  return spent;
}

}  // namespace tenure::bench
