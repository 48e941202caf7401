"""Which test holds each row of the checklist of subtle behaviour (xds-server.md §11), so that none is forgotten.

A row is held by tests, or by the way things are built: then the reason is said, and there is nothing to get wrong. Rows
about what is not served yet are named as such. Here it is only checked that every row has its place and every test
exists.
"""

from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ROWS = range(1, 51)

HELD_BY_TESTS = {
    # a connection is known before its view is worked out: no snapshot can pass it by
    1: (
        "actors/test_connection.py::test_it_announces_itself_once_the_client_is_known",
        "actors/test_push_scheduler.py::test_clients_wait_for_the_first_snapshot",
    ),
    # requests are answered from the snapshot that the connection stands in
    2: ("actors/test_connection.py::test_placed_anew_it_answers_from_there_and_sends_nothing",),
    # clusters that are asked for press once for endpoints; clusters that are pushed do not
    5: (
        "protocol/xds/test_sotw_rules.py::test_6_14_clusters_asked_for_press_once_for_endpoints",
        "protocol/xds/test_sotw_rules.py::test_6_14_a_pushed_cluster_brings_its_endpoints",
    ),
    # delta: endpoints follow every answered request for clusters
    6: ("protocol/xds/test_delta_rules.py::test_6_10_endpoints_follow_each_answer_about_clusters",),
    # endpoints as the first request of a reconnect, with an old nonce
    7: ("protocol/xds/test_sotw_rules.py::test_6_4_case_3_a_nonce_of_another_stream_means_nothing",),
    # no names of a leaf type drop the watch, under any nonce
    8: (
        "protocol/xds/test_sotw_table.py::test_the_case_that_decides",
        "protocol/xds/test_sotw_rules.py::test_6_4_case_2_a_first_request_without_names_leaves_no_watch",
    ),
    # taking names back is not answered; for names that came by the wildcard this is ours by decision
    9: (
        "protocol/xds/test_delta_rules.py::test_6_11_item_2_giving_up_leaves_is_not_answered",
        "protocol/xds/test_delta_rules.py::test_6_11_item_7_extensions_are_never_removed",
        "protocol/xds/test_delta_rules.py::test_6_9_names_that_came_by_the_wildcard_alone_can_be_given_up_silently",
    ),
    # two requests under one nonce
    10: (
        "protocol/xds/test_sotw_rules.py::test_11_10_a_second_request_under_one_nonce_is_answered_if_its_names_changed",
    ),
    # a request under a nonce that is out of date is ignored; a delta client's names are taken later
    11: (
        "protocol/xds/test_delta_rules.py::test_6_9_case_3_a_stale_nonce_is_ignored_with_its_names",
        "protocol/xds/test_convergence.py::test_a_subscription_that_comes_with_an_answer_out_of_date",
    ),
    # a watch of which nothing was sent
    12: ("protocol/xds/test_sotw_rules.py::test_6_7_item_3_nothing_found_is_not_answered",),
    # a NACK keeps the last good nonce
    13: ("protocol/xds/test_sotw_rules.py::test_6_4_case_1_a_nack_keeps_what_was_acknowledged_before",),
    # a reconnect is told of what is gone
    14: ("protocol/xds/test_delta_rules.py::test_6_11_a_reconnect_is_told_what_is_gone",),
    # extensions are never told as removed
    15: ("protocol/xds/test_delta_rules.py::test_6_11_item_7_extensions_are_never_removed",),
    # who names single clusters gets all; leaves keep what was asked for
    16: (
        "protocol/xds/test_delta_rules.py::test_6_9_names_only_is_a_wildcard_for_root_types",
        "protocol/xds/test_delta_rules.py::test_6_9_leaf_types_have_no_wildcard",
    ),
    # leaves that are gone are not told as removed
    17: (
        "protocol/xds/test_delta_rules.py::test_6_11_item_4_unknown_secrets_are_neither_answered_nor_removed",
        "protocol/xds/test_delta_rules.py::test_6_11_item_5_removals_are_told",
    ),
    # "*" and "-*" in one request
    20: ("protocol/xds/test_delta_rules.py::test_6_9_star_and_minus_star_gets_everything",),
    # unknown routes and endpoints come empty
    21: ("protocol/test_xds_spec.py::test_endpoints_and_routes_that_do_not_exist_come_empty",),
    # a service that turned to DNS has no assignment
    22: ("envoy/test_endpoints.py::test_only_eds_clusters_have_assignments",),
    # what changes during a build is built next
    29: ("actors/test_debouncer.py::test_nothing_is_sent_while_something_is_built",),
    # headless services: a change of endpoints is one of the service, and only what differs is sent
    30: (
        "push/test_processors.py::test_keys_of_a_change",
        "actors/test_connection.py::test_a_push_that_changes_nothing_is_recorded",
    ),
    31: (
        "push/test_processors.py::test_keys_of_a_change",
        "envoy/test_name_table.py::test_a_headless_service_leads_to_its_endpoints",
    ),
    # other service accounts of the endpoints show as a change of the service
    32: ("push/test_processors.py::test_new_identities_show_as_the_service",),
    # unhealthy endpoints are sent, unless a threshold counts them
    33: ("envoy/test_endpoints.py::test_unhealthy_endpoints_are_sent_unless_a_threshold_counts_them",),
    # labels first, then what the proxy serves
    34: ("push/test_view.py::test_a_pod_that_is_not_known", "push/test_view.py::test_a_view_follows_its_pod"),
    # a change of the own service counts even out of scope; its endpoints are then empty
    35: (
        "push/test_scope.py::test_own_services_always_count",
        "protocol/xds/test_session.py::test_a_client_can_be_reminded_of_what_it_lost",
        "envoy/test_names.py::test_which_assignments_a_request_touches",
    ),
    # the scope before decides too
    36: ("push/test_scope.py::test_what_has_gone_is_noticed_through_the_scope_before",),
    # whoever has gone is forgotten, in the queue and in flight
    40: ("push/test_queue.py::test_forgetting_frees_everything",),
    41: (
        "actors/test_push_scheduler.py::test_a_client_that_has_gone_is_forgotten",
        "actors/test_push_scheduler.py::test_what_was_in_flight_is_forgotten_when_a_connection_comes_back",
    ),
    # a client that cannot be introduced ends its stream, and nobody waits for it
    42: ("actors/test_connection.py::test_a_node_that_makes_no_sense_ends_the_stream",),
    # a health report does not introduce a client
    43: (
        "actors/test_connection.py::test_a_health_report_does_not_introduce_a_client",
        "protocol/xds/test_session.py::test_6_3_health_reports_are_passed_over",
    ),
    # aliases lead to a service, which changes with them
    47: ("push/test_services.py::test_aliases_are_followed_to_a_service",),
    # Kubernetes before ServiceEntries of the same name
    48: (
        "push/test_services.py::test_kubernetes_goes_before_a_service_entry_of_the_same_name",
        "push/test_sidecar_scope.py::test_one_namespace_for_a_host",
    ),
    # of several that apply the oldest counts
    49: ("push/test_sidecar_scope.py::test_which_sidecars_come_first",),
    # gRPC clients get the whole subscribed set of clusters and listeners (the story `by_name.txt`)
    50: ("interaction/test_interaction.py::test_story",),
}

HELD_BY_DESIGN = {
    3: "no request writes a cache: the memo's keys are all that a build reads",
    4: "a scope is built for a snapshot and travels with it",
    23: "nothing is invalidated: endpoints are part of the memo's keys",
    24: "nothing is invalidated",
    25: "nothing is invalidated",
    26: "nothing is invalidated",
    27: "whether endpoints speak TLS is part of the memo's keys",
    28: "no times are compared",
    38: "what changed is a difference of sets, whatever keys led to it",
    39: "what changed is a difference of sets",
}

NOT_SERVED_YET = {
    18: "workload discovery",
    19: "workload discovery",
    37: "waypoints",
    44: "secrets",
    45: "extensions",
    46: "registries that are replaced",
}


def test_every_row_has_its_place():
    """In one table and no more."""
    assert sorted((*HELD_BY_TESTS, *HELD_BY_DESIGN, *NOT_SERVED_YET)) == list(ROWS)


@pytest.mark.parametrize("row", HELD_BY_TESTS)
def test_the_tests_of_a_row_exist(row):
    """Under the names by which they are given here."""
    for test in HELD_BY_TESTS[row]:
        path, _, name = test.partition("::")
        assert f"def {name}(" in (TESTS / path).read_text(), test
