#include "server/program/device_verbs.h"

#include "server/program/common_options.h"

namespace gradstream {
namespace {

// What each verb is added with.
struct Wiring {
  FleetRunner runner;
  DeviceArguments* arguments;
  int* code;

  CLI::App* add(CLI::App* app, const char* name, const char* text) const {
    CLI::App* const verb = app->add_subcommand(name, text);
    add_config_options(verb, &arguments->common);
    add_format_option(verb, &arguments->common);
    return verb;
  }
  // What the verb does: does(fleet, arguments).
  template <typename Does>
  void call(CLI::App* verb, Does does) const {
    verb->callback([run = runner, all = arguments, result = code, does] {
      *result = run(all->common, [all, does](FleetHome& fleet) { return does(fleet, all); });
    });
  }
};

// A verb of `device` with a name and nothing else.
void add_device_state(CLI::App* device, const Wiring& wiring, const char* verb_name, const char* text,
                      DeviceState state) {
  CLI::App* const verb = wiring.add(device, verb_name, text);
  verb->add_option("name", wiring.arguments->name, "its name")->required();
  wiring.call(verb,
              [state](FleetHome& fleet, DeviceArguments* all) { return device_set_state(fleet, all->name, state); });
}

void add_device_keys(CLI::App* device, const Wiring& wiring) {
  DeviceArguments* const arguments = wiring.arguments;
  CLI::App* const add = wiring.add(device, "add", "enrol a device and write its identity file (mode 0600)");
  add->add_option("name", arguments->name, "its name, never used twice")->required();
  add->add_option("--out", arguments->out, "the identity file to write; goes to the device")->required();
  add->add_flag("--pending", arguments->is_pending, "it is let in only after device enable");
  wiring.call(add, [](FleetHome& fleet, DeviceArguments* all) {
    return device_add(fleet, all->name, all->out, all->is_pending);
  });
  CLI::App* const import_many =
      wiring.add(device, "import", "enrol many: a file of lines NAME or NAME,KEY; all or none");
  import_many->add_option("file", arguments->import.file, "the file (CSV)")->required();
  import_many->add_option("--out-folder", arguments->import.out_folder,
                          "where NAME.identity of names without a key are written");
  import_many->add_flag("--pending", arguments->import.is_pending, "they are let in only after device enable");
  wiring.call(import_many, [](FleetHome& fleet, DeviceArguments* all) { return device_import(fleet, all->import); });
  CLI::App* const rotate = wiring.add(device, "rotate", "give a device a new key; the old one counts for a while");
  rotate->add_option("name", arguments->name, "its name")->required();
  auto* const out = rotate->add_option("--out", arguments->out, "the identity file to write; goes to the device");
  rotate
      ->add_flag("--by-device", arguments->by_device,
                 "the device draws the key in its next session; no file goes to it")
      ->excludes(out);
  rotate->add_option("--window-s", arguments->window_s, "how long the old key counts, s; 0: no longer")
      ->capture_default_str();
  wiring.call(rotate, [](FleetHome& fleet, DeviceArguments* all) {
    return all->by_device ? device_ask_for_key(fleet, all->name, all->window_s)
                          : device_rotate(fleet, all->name, all->out, all->window_s);
  });
}

void add_device(CLI::App* app, const Wiring& wiring) {
  CLI::App* const device =
      app->add_subcommand("device", "enrol, list, rotate and revoke identities; a running server notices");
  device->require_subcommand(1);
  add_device_keys(device, wiring);
  wiring.call(wiring.add(device, "list", "one line a device"),
              [](FleetHome& fleet, DeviceArguments*) { return device_list(fleet); });
  CLI::App* const show = wiring.add(device, "show", "one device in full, also its work where a server tells");
  show->add_option("name", wiring.arguments->name, "its name")->required();
  wiring.call(show, [](FleetHome& fleet, DeviceArguments* all) { return device_show(fleet, all->name); });
  add_device_state(device, wiring, "enable", "let a pending or disabled device in", DeviceState::kActive);
  add_device_state(device, wiring, "disable", "let a device in no more until it is enabled", DeviceState::kDisabled);
  add_device_state(device, wiring, "revoke", "let a device in no more, for good", DeviceState::kRevoked);
}

void add_claim(CLI::App* app, const Wiring& wiring) {
  CLI::App* const claim = app->add_subcommand("claim", "credentials of a batch, by which devices enrol themselves");
  claim->require_subcommand(1);
  ClaimOptions& options = wiring.arguments->claim;
  CLI::App* const add = wiring.add(claim, "add", "make one, and write its identity file (mode 0600)");
  add->add_option("name", options.name, "its name, never used twice")->required();
  add->add_option("--out", options.out, "the identity file to write; goes to the batch")->required();
  add->add_option("--count-max", options.count_max, "devices that it lets in")
      ->check(CLI::Range(1U, 1U << 20))
      ->capture_default_str();
  add->add_option("--window-s", options.window_s, "for how long, s")->capture_default_str();
  add->add_flag("--pending", options.is_pending, "they take part only after device enable");
  wiring.call(add, [](FleetHome& fleet, DeviceArguments* all) { return claim_add(fleet, all->claim); });
  wiring.call(wiring.add(claim, "list", "one line a claim"),
              [](FleetHome& fleet, DeviceArguments*) { return claim_list(fleet); });
  CLI::App* const end = wiring.add(claim, "end", "let nobody in by it any more; who came by it stays");
  end->add_option("name", options.name, "its name")->required();
  wiring.call(end, [](FleetHome& fleet, DeviceArguments* all) { return claim_end(fleet, all->claim.name); });
}

}  // namespace

void add_device_verbs(CLI::App* app, const FleetRunner& runner, DeviceArguments* arguments, int* code) {
  const Wiring wiring = {runner, arguments, code};
  add_device(app, wiring);
  add_claim(app, wiring);
}

}  // namespace gradstream
