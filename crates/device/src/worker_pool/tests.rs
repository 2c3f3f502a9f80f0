//! The promises of the pool: every task once, panics passed on, turns taken.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;

fn counts(pool: &WorkerPool, tasks: usize) -> Vec<usize> {
    let hits: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
    pool.run(tasks, &|worker, i| {
        assert!(worker < pool.threads());
        hits[i].fetch_add(1, Ordering::Relaxed);
    });
    hits.into_iter().map(AtomicUsize::into_inner).collect()
}

#[test]
fn every_task_runs_once() {
    for threads in [1, 2, 3, 8] {
        let pool = WorkerPool::new(threads).unwrap();
        for tasks in [0, 1, 2, 7, 1000] {
            assert_eq!(counts(&pool, tasks), vec![1; tasks], "{threads} threads");
        }
    }
}

#[test]
fn many_short_runs_lose_nothing() {
    let pool = WorkerPool::new(4).unwrap();
    let sum = AtomicUsize::new(0);
    for _ in 0..20_000 {
        pool.run(3, &|_, i| {
            sum.fetch_add(i + 1, Ordering::Relaxed);
        });
    }
    assert_eq!(sum.into_inner(), 20_000 * 6);
}

#[test]
fn sleeping_workers_wake_up() {
    let pool = WorkerPool::new(3).unwrap();
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(5));
        assert_eq!(counts(&pool, 64), vec![1; 64]);
    }
}

#[test]
fn a_worker_index_belongs_to_one_thread_at_a_time() {
    let pool = WorkerPool::new(4).unwrap();
    let busy: Vec<Mutex<()>> = (0..4).map(|_| Mutex::new(())).collect();
    for _ in 0..200 {
        pool.run(50, &|worker, _| {
            let _mine = busy[worker].try_lock().expect("the index is in use by another thread");
        });
    }
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_survives() {
    for threads in [1, 4] {
        let pool = WorkerPool::new(threads).unwrap();
        for bad in [0, 17, 99] {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                pool.run(100, &|_, i| assert!(i != bad, "task {i} fails"));
            }));
            let message = *caught.unwrap_err().downcast::<String>().unwrap();
            assert_eq!(message, format!("task {bad} fails"));
            assert_eq!(counts(&pool, 10), vec![1; 10]);
        }
    }
}

#[test]
fn a_nested_run_is_refused() {
    for threads in [1, 3] {
        let pool = WorkerPool::new(threads).unwrap();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            pool.run(8, &|_, _| pool.run(1, &|_, _| {}));
        }));
        assert!(caught.is_err());
    }
}

#[test]
fn two_callers_take_turns() {
    let pool = WorkerPool::new(3).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|_| assert_eq!(counts(&pool, 5), vec![1; 5])));
        }
    });
}

#[test]
fn a_pool_without_threads_is_an_error() {
    assert!(matches!(WorkerPool::new(0), Err(Error::ThreadCount { threads: 0, .. })));
}
