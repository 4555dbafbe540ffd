// main() of every board without an operating system.
#include "boards/board.h"
#include "firmware/client_main.h"

namespace {

constexpr gradstream::ConsolePort kConsole = {gradstream::board_console_read, gradstream::board_check_storage,
                                              gradstream::board_wipe_identity};

}  // namespace

int main() {
  gradstream::board_start();
  gradstream::ClientMainOptions options;
  options.identity_text = gradstream::board_identity_text();
  options.shard = gradstream::board_shard();
  options.arena = gradstream::board_arena();
  options.tls_pool = gradstream::board_tls_pool();
  options.has_storage = gradstream::board_has_storage();
  options.until_finished = gradstream::board_option("until-finished");
  options.stack_high_water_size = gradstream::board_stack_high_water_size;
  options.feed_watchdog = gradstream::board_feed_watchdog;
  options.console = &kConsole;
  options.reset_cause = static_cast<uint32_t>(gradstream::board_reset_cause());
#if defined(GS_SMALLEST)
  options.key_exchange = GS_PSK_KE;
#endif
  gradstream::board_stop(gradstream::client_main(options));
}
