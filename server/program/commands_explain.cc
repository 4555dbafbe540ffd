// `gradstream explain`: the catalogues of the server's and the client's events, and of refusals, for people, scripts
// and docs/reference/events.md.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "host/standard_files.h"
#include "server/base/client_catalogue.h"
#include "server/base/event_catalogue.h"
#include "server/base/log.h"
#include "server/base/refusal_catalogue.h"
#include "server/program/commands.h"
#include "server/run/names.h"

namespace gradstream {
namespace {

struct KindWord {
  RefusalKind kind;
  const char* word;
};
constexpr KindWord kKindWords[] = {{RefusalKind::kWork, "work"},
                                   {RefusalKind::kKey, "key"},
                                   {RefusalKind::kHttp, "http"},
                                   {RefusalKind::kPeer, "peer"},
                                   {RefusalKind::kDoctor, "doctor"}};

const char* kind_word(RefusalKind kind) {
  for (const KindWord& row : kKindWords) {
    if (row.kind == kind) {
      return row.word;
    }
  }
  return "";
}

std::string remedy_of(const char* clause) { return *clause == '\0' ? "nothing" : clause; }

// A word that is a name: of a key, an option, an event.
bool is_name(std::string_view word) { return word.find('_') != std::string_view::npos || word.starts_with("--"); }

// The words outside of backticks that are names get them.
std::string marked(std::string_view text) {
  std::string out;
  bool is_code = false;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" `,;:()", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const bool is_marked = !is_code && is_name(word);
    out.append(is_marked ? "`" : "").append(word).append(is_marked ? "`" : "");
    if (end < text.size()) {
      is_code = is_code != (text[end] == '`');
      out += text[end];
    }
    at = end + 1;
  }
  return out;
}

std::string markdown() {
  std::string text = "| event | level | meaning | what to do |\n|---|---|---|---|\n";
  for (const EventRow& row : kEvents) {
    const std::string more = *row.page == '\0' ? "" : std::string(" ([more](../") + row.page + "))";
    text += std::string("| `") + row.id + "` | " + std::string(log_level_text(row.level)) + " | " +
            marked(row.meaning) + more + " | " + marked(remedy_of(row.remedy)) + " |\n";
  }
  text += "\n## The client\n\n| event | meaning | what to do |\n|---|---|---|\n";
  for (const ClientEventRow& row : kClientEvents) {
    text += std::string("| `") + row.id + "` | " + marked(row.meaning) + " | " + marked(remedy_of(row.remedy)) + " |\n";
  }
  text += "\n## Refusals\n\n| refusal | of | meaning | what to do |\n|---|---|---|---|\n";
  for (const RefusalRow& row : refusals()) {
    text += std::string("| `") + row.id + "` | " + kind_word(row.kind) + " | " + marked(row.meaning) + " | " +
            marked(remedy_of(row.remedy)) + " |\n";
  }
  return text;
}

}  // namespace

int explain(const CommonOptions& options, const std::string& name, bool as_markdown) {
  if (as_markdown) {
    print_output(markdown());
    return kExitOk;
  }
  bool is_found = false;
  std::vector<std::string> known;
  for (const EventRow& row : kEvents) {
    known.emplace_back(row.id);
    if (!name.empty() && name != row.id) {
      continue;
    }
    is_found = true;
    OutputLine line;
    line.add("event", row.id)
        .add("level", std::string(log_level_text(row.level)))
        .add_quoted("meaning", row.meaning)
        .add_quoted("remedy", remedy_of(row.remedy));
    if (*row.page != '\0') {
      line.add("page", std::string("docs/") + row.page);
    }
    line.print(options);
  }
  for (const ClientEventRow& row : kClientEvents) {
    known.emplace_back(row.id);
    if (name.empty() || name == row.id) {
      is_found = true;
      OutputLine()
          .add("event", row.id)
          .add("of", "client")
          .add_quoted("meaning", row.meaning)
          .add_quoted("remedy", remedy_of(row.remedy))
          .print(options);
    }
  }
  for (const RefusalRow& row : refusals()) {
    known.emplace_back(row.id);
    if (name.empty() || name == row.id) {
      is_found = true;
      OutputLine()
          .add("refusal", row.id)
          .add("of", kind_word(row.kind))
          .add_quoted("meaning", row.meaning)
          .add_quoted("remedy", row.remedy)
          .print(options);
    }
  }
  const std::string nearest = slip_of(name, known);
  return is_found ? kExitOk
                  : fail(kExitNotFound, "no event and no refusal is called " + name + "; " +
                                            (nearest.empty() ? "gradstream explain without a name lists them"
                                                             : "the nearest name is " + nearest));
}

}  // namespace gradstream
