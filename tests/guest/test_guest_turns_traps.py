#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs whose work waits for their own threads, or for each other, beside neighbours that always have work, under
turns: all finish, nobody is taken for hanging, and the neighbours go on.

    test_guest_turns_traps.py METED SIMULATOR GUEST_LINKS STEADY TURNS_TRAPS
"""
import signal
import sys

TRAPS = sys.argv.pop(5)
from sim_node import *

ROUNDS = 30


class Beside:
    """The neighbours: examples/steady twice on every device. They have had turns already: before that the device is open, where nothing is found
    out of anybody."""

    def __init__(self, node, devices):
        self.tenants = [node.admin.tenant(name=f"neighbour {i}", weight="200", device=str(i)) for i in range(devices) for _ in range(2)]
        self.programs = [subprocess.Popen([LOAD, "kernel_us=500", "ahead=4", "seconds=36000", "stdin=1"], text=True,
                                          env=dict(node.guest_environment(tenant), CUDA_VISIBLE_DEVICES=str(i // 2)),
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                         for i, tenant in enumerate(self.tenants)]
        until(lambda: all(self.turns(node)), lambda: f"a neighbour has no turn: {self.turns(node)}")

    def turns(self, node):
        return [node.admin.tenant_row(tenant.tenant).turns for tenant in self.tenants]

    def end(self):
        for program in self.programs:
            out, err = program.communicate(timeout=PATIENCE)
            assert program.returncode == 0, (out, err)


def finish(*traps, rounds=ROUNDS, found=True):
    """Each is a tenant of its own, and they wait for each other; found: by kernels, which is to be found out."""
    with Node("1GiB", METE_SIM_DEVICES="1xT4") as node:
        beside = Beside(node, 1)
        tenants = [node.admin.tenant(name=trap, escalate="kill") for trap in traps]
        programs = [subprocess.Popen([TRAPS, trap, str(rounds * SCALE)], text=True,
                                     env=dict(node.guest_environment(tenant), METE_TRAP_MEET=node.folder + "/meet"),
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                    for trap, tenant in zip(traps, tenants)]
        before = beside.turns(node)
        for program in programs:
            out, err = program.communicate(timeout=PATIENCE)
            assert (program.returncode, out) == (0, "done\n"), (program.returncode, out, err, node.meted.log()[-2000:])
        until(lambda: all(now > then + 2 for now, then in zip(beside.turns(node), before)), "the neighbours have no turns any more")
        beside.end()
        log = node.meted.log()
        assert "tenant.awaits" in log or not found, log[-2000:]
        assert "tenant.hangs" not in log and "tenant.killed" not in log, log[-2000:]
        print(f"{traps}: found {log.count('tenant.awaits')} times, beside {log.count('tenant.beside')} times")


def finishes(trap, devices=1, rounds=ROUNDS, moves=False):
    with Node("1GiB", METE_SIM_DEVICES=f"{devices}xT4") as node:
        beside = Beside(node, devices)
        made = node.admin.tenant(name=trap, escalate="kill", device=",".join(map(str, range(devices))))
        if moves:
            node.admin.set(made.tenant, "swap", "auto")
        program = subprocess.Popen([TRAPS, trap, str(rounds * SCALE)], env=node.guest_environment(made), text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = program.communicate(timeout=PATIENCE)
        assert (program.returncode, out) == (0, "done\n"), (program.returncode, out, err, node.meted.log()[-2000:])
        before = beside.turns(node)
        other = node.admin.tenant(name="other", weight="300", device=",".join(map(str, range(devices))))
        steady = subprocess.Popen([LOAD, "kernel_us=500", "ahead=4", "seconds=36000", "stdin=1"], text=True,
                                  env=node.guest_environment(other), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # Turns go on as ever: somebody else takes part, and the neighbours have theirs.
        until(lambda: beside.turns(node)[0] > before[0] + 2, "the neighbour has no turns any more")
        steady.communicate(timeout=PATIENCE)
        beside.end()
        log = node.meted.log()
        assert "tenant.hangs" not in log and "tenant.killed" not in log, log[-2000:]
        print(f"{trap}: coupled {log.count('tenant.coupled')} times, beside {log.count('tenant.beside')} times")


def test_a_kernel_that_polls_a_flag_of_a_thread_that_launches_ends():
    finishes("flag")


def test_a_host_function_that_waits_for_a_launch_ends():
    finishes("host_function")


def test_a_stream_that_waits_for_a_value_ends():
    finishes("wait_value")


def test_a_kernel_that_polls_a_flag_of_a_signal_handler_that_launches_ends():
    finishes("signal")


def test_a_host_function_that_needs_a_lock_which_is_held_across_launches_ends():
    finishes("lock")


def test_kernels_that_wait_for_each_other_on_two_devices_end():
    finishes("devices", devices=2)


def test_a_capture_that_stays_open_for_seconds_ends():
    finishes("capture", rounds=3)


def test_a_callback_that_waits_for_another_streams_work_ends():
    finishes("callback", rounds=10)


def test_a_host_node_of_a_graph_that_waits_for_work_ends():
    finishes("graph_host", rounds=10)


def test_a_stream_that_waits_for_a_value_that_another_stream_writes_ends():
    finishes("write_value", rounds=10)


def test_a_kernel_that_waits_for_a_thread_which_waits_for_an_event_ends():
    finishes("event", rounds=10)


def test_a_kernel_that_waits_for_a_thread_which_polls_a_stream_ends():
    finishes("query", rounds=10)


def test_a_host_function_that_waits_for_a_copy_ends():
    finishes("copy", rounds=10)


def test_kernels_that_wait_for_a_thread_which_never_calls_the_driver_end():
    finishes("mailbox", rounds=10)


def test_a_kernel_that_waits_for_another_process_of_its_tenant_ends():
    finishes("process", rounds=10)


def test_a_kernel_that_never_ends_is_fed_by_copies():
    finishes("fed")


def test_a_kernel_is_fed_by_a_thread_that_never_calls_the_driver():
    finishes("ring", rounds=10)


def test_a_graph_that_goes_on_until_a_thread_has_launched_ends():
    finishes("loop", rounds=10)


def test_a_graph_that_its_host_node_has_launched_again_ends():
    finishes("again", rounds=10)


def test_contexts_whose_streams_wait_for_each_other_end():
    finishes("priorities", rounds=10)


def test_a_kernel_that_waits_for_memory_of_a_pool_ends():
    finishes("pool", rounds=10)


def test_a_kernel_that_waits_for_objects_to_be_made_and_destroyed_ends():
    finishes("makes", rounds=10)


def test_kernels_of_two_threads_that_wait_for_each_other_end():
    finishes("threads", rounds=10)


def test_a_kernel_that_waits_for_a_timers_launches_ends():
    finishes("timer", rounds=10)


def test_a_kernel_that_waits_for_a_forked_child_ends():
    finishes("forks", rounds=10)


def test_a_program_that_is_stopped_and_continued_ends():
    finishes("stopped", rounds=10)


def test_streams_that_hand_a_word_to_each_other_in_batches_end():
    finishes("batch", rounds=10)


def test_a_grid_whose_blocks_wait_for_the_host_again_and_again_ends():
    finishes("grid", rounds=5)


def test_a_kernel_that_waits_for_events_of_three_threads_ends():
    finishes("events", rounds=10)


def test_host_functions_that_wait_for_memory_end():
    finishes("chain", rounds=10)


def test_host_functions_that_wait_for_memory_that_moves_end():
    finishes("chain", rounds=10, moves=True)


def test_a_graph_with_memory_whose_host_node_waits_ends():
    finishes("graph_memory", rounds=10)


def test_callbacks_whose_successors_another_thread_launches_end():
    finishes("callbacks", rounds=10)


def test_a_kernel_that_waits_for_copies_which_wait_for_their_bytes_ends():
    finishes("copies", rounds=10)


def test_kernels_in_threads_own_default_streams_end():
    finishes("per_thread", rounds=10)


def test_a_kernel_that_waits_for_an_alarms_launches_ends():
    finishes("alarm", rounds=10)


def test_a_kernel_that_waits_for_bytes_of_a_process_without_the_driver_ends():
    finishes("pipes", rounds=10)


def test_streams_of_two_processes_that_wait_for_each_others_values_end():
    finishes("mates", rounds=10)


def test_a_server_whose_child_has_the_context_ends():
    finishes("server", rounds=10)


def test_children_that_begin_with_the_driver_and_end_go_on():
    finishes("children", rounds=5)


def test_a_stream_that_waits_for_a_value_from_outside_is_not_called_hanging():
    finishes("far", rounds=1)


def test_a_program_that_is_stopped_is_no_longer_believed_to_wait_for_something_outside():
    """Its work may have gone on since it said so, and it was neither charged nor reported."""
    with Node("1GiB", METE_SIM_DEVICES="1xT4") as node:
        beside = Beside(node, 1)
        made = node.admin.tenant(name="far")
        program = subprocess.Popen([TRAPS, "far", "1000"], env=node.guest_environment(made), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def called(*what):
            """Of this tenant: a neighbour whose thread gets no processor may be called so, too."""
            return any(f"tenant.{each} tenant={made.tenant} " in node.meted.log() for each in what)

        try:
            until(lambda: node.admin.tenant_row(made.tenant).turns, "it has no turn")
            # Its drain is given up each time: its gate is closed, and others have many turns meanwhile.
            before = beside.turns(node)
            until(lambda: all(now > then + 20 for now, then in zip(beside.turns(node), before)), "the neighbours have no turns")
            assert not called("hangs", "beside"), node.meted.log()[-2000:]
            program.send_signal(signal.SIGSTOP)
            until(lambda: called("hangs"), lambda: node.meted.log()[-2000:])
        finally:
            program.kill()
            program.communicate(timeout=PATIENCE)
        beside.end()


def test_default_streams_that_wait_for_a_value_from_outside_are_not_called_hanging():
    finishes("far_default", rounds=1)


def test_a_host_function_that_waits_for_another_program_is_not_called_hanging():
    finishes("told", rounds=1)


def test_a_program_of_which_one_stream_waits_for_a_value_from_outside_ends():
    finishes("half", rounds=3)


def test_a_stream_that_waits_for_the_event_of_one_that_waits_for_a_value_ends():
    finishes("behind", rounds=3)


def test_a_thread_that_asks_for_an_event_without_a_rest_ends():
    finishes("busy", rounds=10)


def test_host_functions_of_two_streams_that_hand_a_byte_to_each_other_end():
    finishes("hand_over", rounds=10)


def test_memory_of_a_pool_that_goes_from_thread_to_thread_ends():
    finishes("allocators", rounds=5)


def test_captures_beside_a_thread_that_synchronises_end():
    finishes("recaptures", rounds=5)


def test_a_graph_that_callbacks_have_launched_again_ends():
    finishes("relaunched", rounds=5)


def test_loaders_that_pin_memory_end():
    finishes("loaders", rounds=10)


def test_a_server_that_waits_for_a_batch_ends():
    finishes("batching", rounds=5)


def test_a_stream_that_waits_for_two_workers_ends():
    finishes("workers", rounds=10)


def test_a_program_under_a_debugger_ends():
    finishes("debugged", rounds=10)


def test_streams_that_are_destroyed_as_they_wait_end():
    finishes("discarded", rounds=3)


def test_own_streams_of_threads_whose_host_functions_rest_end():
    finishes("own_told", rounds=3)


def test_a_thread_that_launches_only_in_a_stream_that_is_ready_ends():
    finishes("polled", rounds=10)


def test_a_callback_posts_to_a_thread_that_has_the_lock_of_another_one():
    finishes("condition", rounds=10)


def test_an_event_loop_that_host_functions_and_a_timer_wake_ends():
    finishes("reactor", rounds=10)


def test_a_context_that_waits_without_polling_ends():
    finishes("sleeps", rounds=10)


def test_memory_that_is_mapped_and_unmapped_while_a_kernel_waits_for_that_ends():
    finishes("mapping", rounds=10)


def test_a_plug_in_that_opens_the_driver_for_itself_ends():
    finishes("plug_in", rounds=10)


def test_a_graph_that_waits_for_an_event_of_a_stream_that_waits_ends():
    finishes("graph_events", rounds=10)


def test_a_graph_that_goes_on_as_a_thread_has_decided_ends():
    finishes("chosen", rounds=10)


def test_kernels_of_green_contexts_that_wait_for_each_other_end():
    finishes("green", rounds=10)


def test_a_kernel_that_polls_managed_memory_ends():
    finishes("managed", rounds=10)


def test_a_kernel_that_another_process_feeds_by_mapped_memory_is_fed():
    finishes("produced", rounds=100)


def test_workers_of_a_server_that_has_forked_end():
    finishes("relay", rounds=10)


def test_a_program_whose_other_process_is_stopped_now_and_then_ends():
    finishes("halted", rounds=10)


def test_ranks_of_one_tenant_whose_threads_send_what_kernels_wait_for_end():
    finishes("gang", rounds=10)


def test_two_processes_that_wait_for_events_and_values_of_each_other_end():
    finishes("echoes", rounds=10)


def test_two_processes_that_are_stopped_together_end():
    finishes("group", rounds=10)


def test_kernels_that_spin_for_a_lock_on_the_device_end():
    finishes("spins", rounds=10)


def test_a_handler_that_waits_for_the_context_ends():
    finishes("handler", rounds=10)


def test_a_kernel_that_waits_for_the_end_of_another_context_ends():
    finishes("destroys", rounds=10)


def test_a_stream_that_waits_while_its_pool_is_trimmed_ends():
    finishes("trims", rounds=10)


def test_batches_that_other_processes_fill_end():
    finishes("pinned", rounds=10)


def test_three_ranks_that_meet_on_the_processor_and_on_the_device_end():
    finish("rank_0", "rank_1", "rank_2", rounds=10, found=False)


def test_two_tenants_that_compute_with_the_lock_of_a_file_end():
    finish("locks_here", "locks_there", rounds=10, found=False)


def test_a_ring_of_two_tenants_with_proxy_threads_ends():
    finish("ring_here", "ring_there", rounds=10, found=False)


def test_streams_of_two_tenants_that_wait_for_each_others_values_end():
    finish("value_here", "value_there", found=False)


def test_streams_of_two_tenants_that_are_ahead_with_values_end():
    finish("ahead_here", "ahead_there", found=False)


def test_streams_of_two_tenants_that_wait_for_values_in_memory_of_the_device_end():
    finish("value_lends", "value_borrows", found=False)


def test_two_tenants_that_ask_and_answer_end():
    finish("asks", "answers", found=False)


def test_three_tenants_in_a_pipeline_end():
    finish("first", "second", "third", found=False)


def test_streams_of_two_tenants_that_wait_for_each_others_events_end():
    finish("records", "follows", found=False)


def test_two_tenants_that_meet_in_memory_of_the_device_end():
    finish("lends", "borrows")


def test_two_tenants_that_meet_in_memory_of_the_host_end():
    finish("meets_here", "meets_there")


if __name__ == "__main__":
    run(globals())
