//! Servers whose surroundings fail while rows are looked up: what is left serves, counters say so,
//! and afterwards all levels agree with what was published.

use terrace_embedding::LevelKind;

use crate::kafka_broker::wait_until;
use crate::served::table;
use crate::served_feed::own;
use crate::served_world::World;

fn redis_errors(world: &World) -> u64 {
    let table = table(world.server());
    let calls = table.levels().level(LevelKind::Redis).expect("a level").counters().calls;
    calls.errors.iter().sum()
}

/// A master dies, updates come meanwhile, and it comes back with nothing.
fn kill_one(world: &mut World, number: usize) {
    let before = redis_errors(world);
    world.publish();
    world.kill_redis(number);
    world.publish();
    world.watch().wait_for_look_ups(50);
    assert!(redis_errors(world) > before, "counters say that it is gone");
    world.start_redis(number);
    world.publish();
    world.settle();
}

/// It comes back with rows that were replaced long ago.
fn kill_one_with_a_snapshot(world: &mut World, number: usize) {
    world.cluster.servers[number].command(&["SAVE"]);
    world.publish();
    world.publish();
    world.settle();
    world.kill_redis(number);
    world.watch().wait_for_look_ups(20);
    world.start_redis(number);
    world.watch().wait_for_look_ups(50);
    world.publish();
    world.settle();
}

fn kill_all(world: &mut World) {
    world.publish();
    world.settle();
    world.kill_all_redis();
    world.publish();
    world.watch().wait_for_look_ups(50);
    world.start_all_redis();
    world.settle();
}

fn hang_one(world: &mut World, number: usize) {
    let before = redis_errors(world);
    world.loosen();
    world.cluster.servers[number].signal("STOP");
    world.publish();
    world.watch().wait_for_look_ups(20);
    assert!(redis_errors(world) > before, "counters say that it hangs");
    world.cluster.servers[number].signal("CONT");
    world.publish();
    world.settle();
}

fn cut_the_broker_off(world: &mut World) {
    world.publish();
    world.settle();
    world.set_broker_up(false);
    world.publish();
    wait_until("counters say that no broker answers", || !own(world.server()).is_connected);
    world.watch().wait_for_look_ups(20);
    world.set_broker_up(true);
    world.publish();
    world.settle();
}

#[test]
fn masters_that_die_or_hang_above_a_database_show_nobody_an_old_row() {
    let mut world = World::start(Some("embedded"), 1);
    kill_one(&mut world, 0);
    hang_one(&mut world, 1);
    kill_one_with_a_snapshot(&mut world, 2);
    world.stop();
}

#[test]
fn a_cluster_and_a_broker_that_go_and_come_back_leave_no_old_row() {
    let mut world = World::start(Some("rocksdb"), 2);
    kill_all(&mut world);
    cut_the_broker_off(&mut world);
    world.stop();
}

#[test]
fn a_cluster_without_a_database_below_is_filled_again_from_files_and_updates() {
    let mut world = World::start(None, 3);
    kill_one(&mut world, 1);
    kill_one_with_a_snapshot(&mut world, 0);
    kill_all(&mut world);
    world.stop();
}

/// Updates that never stop are no reason to leave Redis empty.
#[test]
fn redis_is_filled_again_while_updates_come_all_the_time() {
    let mut world = World::start(Some("embedded"), 4);
    world.kill_redis(1);
    world.watch().wait_for_look_ups(20);
    world.start_redis(1);
    let server = std::sync::Arc::clone(world.server());
    let level = table(&server).levels().level(LevelKind::Redis).expect("a level");
    wait_until("Redis has all rows", || {
        world.publish();
        level.store().count().is_ok_and(|count| count == crate::served_world::KEYS as u64)
    });
    world.settle();
    world.stop();
}
