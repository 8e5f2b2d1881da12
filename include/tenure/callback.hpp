// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A copy of a function object, to be called later, like std::function. It does not need <functional>, which is most of
// the cost of compiling a small program. Calling an empty callback is undefined.
#pragma once

#include <cassert>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace tenure {

#pragma GCC visibility push(default)  // libtenure.so exports it

template <class Signature>
class callback;

template <class Result, class... Arguments>
class callback<Result(Arguments...)> {
 public:
  callback() noexcept = default;
  callback(std::nullptr_t) noexcept {}
  template <class F>
  requires(!std::is_same_v<F, callback> && std::is_invocable_r_v<Result, F&, Arguments...>) callback(F f) {
    if constexpr (requires { f == nullptr; })
      if (f == nullptr) return;
    held_ = new holder<F>(std::move(f));
  }
  callback(const callback& other) : held_(other.held_ == nullptr ? nullptr : other.held_->copy()) {}
  callback(callback&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  callback& operator=(callback other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~callback() { delete held_; }

  [[nodiscard]] explicit operator bool() const noexcept { return held_ != nullptr; }
  Result operator()(Arguments... arguments) const {
    assert(held_ != nullptr);
    return held_->call(std::forward<Arguments>(arguments)...);
  }

 private:
  struct held {
    virtual ~held() = default;
    [[nodiscard]] virtual held* copy() const = 0;
    virtual Result call(Arguments... arguments) = 0;
  };
  template <class F>
  struct holder final : held {
    explicit holder(F f) : function(std::move(f)) {}
    [[nodiscard]] held* copy() const override { return new holder(function); }
    Result call(Arguments... arguments) override { return function(std::forward<Arguments>(arguments)...); }
    F function;
  };

  held* held_ = nullptr;
};

#pragma GCC visibility pop

}  // namespace tenure
