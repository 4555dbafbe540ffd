// The catalogue of the client's events: what a device says on its console or standard error, what it means and what to
// do. Devices hold none of these words: a line of theirs has its own `reason`, and `remedy` where there is room. A test
// compares the ids with the sources of firmware/, boards/ and host/.
//
// `gradstream explain` prints rows, and docs/reference/events.md is what `gradstream explain --markdown` prints.
#ifndef GRADSTREAM_SERVER_BASE_CLIENT_CATALOGUE_H_
#define GRADSTREAM_SERVER_BASE_CLIENT_CATALOGUE_H_

namespace gradstream {

struct ClientEventRow {
  const char* id;       // scripts match it, and it is never renamed
  const char* meaning;  // a clause, or sentences; no final point
  const char* remedy;   // the same; "": nothing is to be done
};

// By their ids.
inline constexpr ClientEventRow kClientEvents[] = {
    {"ack", "of the file that --record names: the server has judged an update", ""},
    {"asked", "of a console: the next line that is yes erases name and key", ""},
    {"assert_failed", "a check of the program's own failed, and it starts again",
     "report it with the line and the lines before it"},
    {"awake", "of an emulated board that counts: how long the processor was awake since the start", ""},
    {"bad_data", "samples or labels are none that the problem takes, which `reason` names",
     "mend the data that the line names, and start again"},
    {"bad_sample", "a task was refused, as `sample` is none that the run's problem takes",
     "mend the data that the line names, and start again"},
    {"boot", "a board has started: which image, and for which cause of a reset", ""},
    {"claim_failed", "the claim has not reached its server, for `reason`; the client tries again",
     "look at the address that --server names, and at the network"},
    {"claim_refused", "the claim is not taken, for `reason`",
     "do what the line says, and see claim_refused of the server"},
    {"claimed", "the device has enrolled itself, and its identity stands in the file of the line", ""},
    {"clock", "a clock of the chip does not start, and the board goes on by a worse one",
     "look at the crystal; without random numbers there is no TLS"},
    {"connected", "the session with the server is there", ""},
    {"deadline", "the server was silent for too long in `state`; the client tries again",
     "look at the link, and whether the server runs"},
    {"ended", "a signal has ended the client", ""},
    {"ethernet", "the cable is in or out, and which address the board has", "where the cable is out: plug it in"},
    {"failed", "the client cannot start or go on, for `reason`", "do what the line says"},
    {"fault", "the processor met a fault, and the board starts again",
     "report it with the lines before it; for a stack overflow enlarge kStackSize"},
    {"features_not_kept", "the arena has no room for the features, so each evaluation computes them anew",
     "none needed; a larger arena makes evaluations faster"},
    {"finished", "the run is over, and the device has its last version; the numbers are of this life", ""},
    {"frames_lost", "the Ethernet controller dropped frames, for `cause`; at most one line in ten seconds",
     "none needed now and then, TCP sends them again; else look at the traffic of that network"},
    {"help", "of a console: the commands", ""},
    {"identity_kept", "of a console: nothing was erased", ""},
    {"identity_reset", "of a console: name and key are erased now", "give the board an identity: ./run provision"},
    {"key_change_failed", "a new key could not be drawn or kept, for `reason`; the old one counts",
     "do what the line says"},
    {"key_change_refused", "the server does not take the new key; the old one counts",
     "none needed; key_change_refused in the server's log says why"},
    {"key_changed", "the device has a new key, and its file is written", ""},
    {"line_too_long", "of a console: the line was dropped", "type help"},
    {"link_lost", "the connection could not be made or has ended, for `reason`; the device dials again",
     "do what `reason` says; gradstream doctor finds the cause from a Linux machine"},
    {"log_lines_lost", "the reader of the log was gone or stood still, and `count` lines before this one are missing",
     "look at what reads standard error"},
    {"measurement_lost", "the apparatus did not answer `question` within the limit",
     "look at the apparatus, or raise measure_timeout_ms; the device asks for a task again"},
    {"model", "the device has a model: from its storage, or the first one from the server", ""},
    {"not_capable", "the device lacks what the run's tasks need, and waits for another run",
     "device_not_capable in the server's log names it: give the device another image or network, or begin another run"},
    {"out_of_memory", "the arena is too small for the run", "do what the line says, or begin a smaller run"},
    {"problems", "with --problem any: the problems that the client does, and those that it leaves out", ""},
    {"refused", "a task or an update does not count, for `reason`", "look up the reason in the table of refusals"},
    {"resumed", "after a reset: `steps` of the task were there, and the device goes on behind them", ""},
    {"self_test", "the image tests the board, and asks for a nonce first",
     "type the nonce of ./run report nonce; without one it begins by itself"},
    {"started", "who the device is, its image, its server and its data", ""},
    {"state_dropped", "what was saved does not belong to this device as it is, and it starts afresh",
     "none needed after a new identity, image or network; else the storage is damaged"},
    {"state_lost", "no page of the log in flash holds together, and the device starts afresh",
     "none needed once; again and again: the flash or its supply fails"},
    {"state_not_saved", "the state could not be written; training goes on, and a reset begins at an older state",
     "free space or repair the storage"},
    {"state_saved", "the state is written again, after `failures`", ""},
    {"status", "of a console: who the device is, and its link", ""},
    {"status_model", "of a console: state, version and digest of the model, and the link's last fault", ""},
    {"step_not_kept", "a step of the task could not be written: a reset repeats the task",
     "look at the flash and its supply"},
    {"stopped", "the run was stopped, and the device has its last version; the numbers are of this life", ""},
    {"table", "which samples the table of --data has", ""},
    {"test", "of a console: random numbers, arithmetic and flash",
     "a result of failed: do not use the board, and report which of them it is"},
    {"threshold", "the score that the quantile of --threshold leads to", ""},
    {"unknown_command", "of a console: the line is no command", "type help"},
    {"warning", "the client goes on; `reason` says what to look at", "do what the line says"},
    {"watchdog", "the image hung, and the watchdog starts the board again", "report it with the lines before it"},
    {"wrong_shape", "the samples have another number of values than the run's model has rows",
     "give the device the data of this run, or begin a run with its number of rows"},
};

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_CLIENT_CATALOGUE_H_
