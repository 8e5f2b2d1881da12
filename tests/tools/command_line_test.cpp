// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What the commands have in common: advice on wrong names, output that fails, errors for programs, and the line of progress.
#include <tenure/error.hpp>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "command_names.hpp"
#include "output.hpp"
#include "progress_line.hpp"
#include "shown.hpp"
#include "support/expect_error.hpp"

namespace tenure::tools {
namespace {

const std::vector<std::string> names{"log status", "log records", "log cut", "segment verify", "info", "verify"};

TEST(command_names, a_command_needs_no_advice) {
  EXPECT_EQ(advice_on_commands(names, {"info", "more", "words"}), "");
  EXPECT_EQ(advice_on_commands(names, {"log", "cut"}), "");
}

TEST(command_names, what_is_missing_is_listed) {
  EXPECT_EQ(advice_on_commands(names, {}), "name a command: log, segment, info, verify; --help says what they do");
  EXPECT_EQ(advice_on_commands(names, {"log"}),
            "name a command: log status, log records, log cut; --help says what they do");
}

TEST(command_names, what_is_similar_is_offered) {
  const auto offers = [](const std::vector<std::string>& words, const std::string& name) {
    return advice_on_commands(names, words).find("did you mean \"" + name + "\"? there are: ") != std::string::npos;
  };
  EXPECT_TRUE(offers({"inof"}, "info"));
  EXPECT_TRUE(offers({"lgo"}, "log"));
  EXPECT_TRUE(offers({"log", "stats"}, "log status"));
  EXPECT_TRUE(offers({"status"}, "log status")) << "of another word's";
  EXPECT_TRUE(offers({"verfy", "directory"}, "verify"));
  EXPECT_EQ(advice_on_commands(names, {"frobnicate"}),
            "there is no command \"frobnicate\"; there are: log, segment, info, verify; --help says what they do");
  EXPECT_EQ(advice_on_commands(names, {"log", "xyz"}),
            "there is no command \"log xyz\"; there are: log status, log records, log cut; --help says what they do");
}

// What the line says is wrong; empty: nothing.
std::string mistake_in(std::vector<std::string> words) {
  command_line line("a program");
  std::uint64_t limit = 0;
  std::vector<unsigned> sizes;
  std::optional<std::uint64_t> moment;
  line.option("--limit", limit, "a number");
  line.option("--sizes", sizes, "several").separated_by_commas();
  line.option("--at", moment, "perhaps a number");
  words.insert(words.begin(), "program");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  const auto end = line.parse(static_cast<int>(arguments.size()), arguments.data());
  return end ? end->text : "";
}

TEST(numbers, of_options_are_in_their_range) {
  EXPECT_EQ(mistake_in({"--limit", "18446744073709551615", "--sizes", "0x10,7", "--at", "9"}), "");
  EXPECT_NE(mistake_in({"--limit", "-5"}).find("-5 is less than 0"), std::string::npos);
  EXPECT_NE(mistake_in({"--limit=18446744073709551616"}).find("18446744073709551616 is too large"), std::string::npos);
  EXPECT_NE(mistake_in({"--sizes", "1,-7"}).find("-7 is less than 0"), std::string::npos);
  EXPECT_NE(mistake_in({"--sizes", "4294967296"}), "");
  EXPECT_NE(mistake_in({"--at", "-1"}).find("-1 is less than 0"), std::string::npos);
  EXPECT_NE(mistake_in({"--limit", "many"}), "");
}

TEST(output, goes_to_the_file) {
  const shown text = show([](std::FILE* to) {
    output out(to);
    std::fputs("some", out.file());
    EXPECT_FALSE(out.has_begun()) << "not a line yet, and little";
    out.finish();
    EXPECT_TRUE(out.has_begun());
    std::fputs(" and more", out.file());
    return 0;
  });
  EXPECT_EQ(text.text, "some and more");
}

// Names and types may be any bytes.
TEST(output, does_not_command_a_terminal) {
  const shown text = show([](std::FILE* to) {
    output out(to);
    std::fputs("a\ttype \x1b[2Jof \x7f\r\n\xc3\xa4\n", out.file());
    out.finish();
    report_error(std::runtime_error("no \x1b"), "tenure", false, out, to);
    return 0;
  });
  EXPECT_EQ(text.text, "a\ttype \\033[2Jof \\177\\015\n\xc3\xa4\ntenure: no \\033\n");
}

TEST(output, that_fails_is_an_error) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> full(std::fopen("/dev/full", "w"), &std::fclose);
  ASSERT_NE(full, nullptr);
  for (const std::size_t length : {1, 1 << 20}) {
    output out(full.get());
    std::fputs(std::string(length, 'x').c_str(), out.file());
    support::expect_error(std::errc::no_space_on_device, {"cannot write the output: No space left on device"},
                          [&] { out.finish(); });
  }
}

TEST(output, hides_the_progress_first) {
  auto now = std::chrono::steady_clock::time_point{};
  const shown text = show([&](std::FILE* to) {
    progress_line line(to, [&] { return now; });
    now += std::chrono::seconds(1);
    line.show("reading", 1 << 20, 4 << 20);
    output out(to, &line);
    std::fputs("result\n", out.file());
    out.finish();
    return 0;
  });
  EXPECT_EQ(text.text, "\rreading: 1 of 4 MiB, 25 %\x1b[K\r\x1b[Kresult\n");
}

// What a command shows that fails, on its output; the message for people is the same in any case.
std::string failing(bool as_json, const std::string& before, const std::exception& what) {
  std::string messages;
  const shown text = show([&](std::FILE* to) {
    output out(to);
    std::fputs(before.c_str(), out.file());
    messages = show([&](std::FILE* people) {
                 report_error(what, "tenure", as_json, out, people);
                 return 0;
               }).text;
    return 0;
  });
  EXPECT_EQ(messages, std::string("tenure: ") + what.what() + "\n");
  return text.text;
}

TEST(errors, are_json_where_a_program_expects_it) {
  const error in_use(errc::in_use, "it is \"in use\"");
  const auto j = nlohmann::json::parse(failing(true, "", in_use))["error"];
  EXPECT_EQ(j["message"], "it is \"in use\"");
  EXPECT_EQ(j["code"], static_cast<int>(errc::in_use));
  EXPECT_EQ(j["category"], "tenure");
  EXPECT_EQ(nlohmann::json::parse(failing(true, "", std::runtime_error("other"))),
            (nlohmann::json{{"error", {{"message", "other"}}}}));
  EXPECT_EQ(nlohmann::json::parse(failing(true, "{ \"half\": ", in_use))["error"], j)
      << "what nobody has seen is forgotten";
  EXPECT_EQ(failing(false, "", in_use), "");
  EXPECT_EQ(failing(false, "a line\n", in_use), "a line\n") << "what could be shown is";
  const std::string much = "{" + std::string(1 << 20, ' ');
  EXPECT_EQ(failing(true, much, in_use), much) << "it has begun: no second document follows";
}

TEST(progress, says_how_long_it_takes_if_nothing_else_is_known) {
  auto now = std::chrono::steady_clock::time_point{};
  const shown text = show([&](std::FILE* out) {
    progress_line line(
        out, [&] { return now; }, "tenure");
    line.tick();
    now += std::chrono::milliseconds(1200);
    line.tick();
    line.tick();  // too soon
    now += std::chrono::seconds(1);
    line.show("reading", 1 << 20, 4 << 20);
    now += std::chrono::milliseconds(900);
    line.tick();  // what is known stays for a second
    now += std::chrono::milliseconds(100);
    line.tick();
    line.hide();
    return 0;
  });
  EXPECT_EQ(text.text, "\rtenure: 1 s\x1b[K\rreading: 1 of 4 MiB, 25 %\x1b[K\rtenure: 3 s\x1b[K\r\x1b[K");
}

}  // namespace
}  // namespace tenure::tools
