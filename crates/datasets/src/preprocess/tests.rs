//! Whole runs over files as their publishers write them, and over damaged ones.

use std::fs;

use proptest::prelude::*;

use crate::read::{BatchTable, SequenceColumns, SequenceTable};

use super::*;

const LOG_HEADER: &str = "user_id,video_id,date,hourmin,time_ms,is_click,is_like,is_follow,\
                          is_comment,is_forward,is_hate,long_view,play_time_ms,duration_ms,\
                          profile_stay_time,comment_stay_time,is_profile_enter,is_rand,tab\n";

/// A row of KuaiRand's logs; the play time is the item's number.
fn log_row(user: i64, item: i64, date: u32, time: i64, click: u8, profile: u8) -> String {
    format!("{user},{item},{date},1200,{time},{click},0,0,0,0,0,0,{item},9,0,0,{profile},0,1\n")
}

const USERS: &str = "user_id,user_active_degree,follow_user_num,follow_user_num_range,\
                     fans_user_num_range,friend_user_num_range,register_days_range,onehot_feat4\n\
                     3,high,5,\"(0,10]\",0,0,31-60,1\n\
                     1,full,7,\"(10,50]\",0,0,31-60,\n\
                     2,high,9,\"(0,10]\",0,\"[1,5)\",61-90,4\n";

struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new(files: &[(&str, &str)]) -> Self {
        let fixture = Fixture { folder: tempfile::tempdir().unwrap() };
        for (name, text) in files {
            let path = fixture.folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fixture
    }

    fn kuairand(first: &str, second: &str) -> Self {
        let data = "KuaiRand-1K/data";
        Fixture::new(&[
            (&format!("{data}/log_standard_4_08_to_4_21_1k.csv"), &(LOG_HEADER.to_owned() + first)),
            (
                &format!("{data}/log_standard_4_22_to_5_08_1k.csv"),
                &(LOG_HEADER.to_owned() + second),
            ),
            (&format!("{data}/user_features_1k.csv"), USERS),
        ])
    }

    fn preprocess(&self, dataset: Dataset, inference: bool) -> Result<PreprocessReport, String> {
        let options = PreprocessOptions {
            dataset,
            dataset_path: self.folder.path().to_owned(),
            memory_bytes: 1 << 10,
            inference_interval_seconds: inference.then_some(60),
        };
        preprocess(&options, &|_| ()).map_err(|error| error.to_string())
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path().join(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn kuairand_as_the_original_writes_it() {
    let first = [
        log_row(1, 11, 20_220_409, 5_000, 1, 0),
        log_row(3, 31, 20_220_408, 900, 0, 1),
        log_row(1, 10, 20_220_408, 2_000, 0, 0),
        log_row(2, 20, 20_220_408, 1_000, 1, 1),
        log_row(1, 12, 20_220_409, 5_000, 1, 1),
    ];
    let second =
        [log_row(3, 30, 20_220_422, 70_000, 1, 0), log_row(1, 13, 20_220_422, 80_000, 0, 0)];
    let fixture = Fixture::kuairand(&first.concat(), &second.concat());
    let report = fixture.preprocess(Dataset::KuaiRand1k, true).unwrap();
    assert_eq!((report.sequences.users, report.sequences.users_left_out), (2, 1));
    let want = "user_id,video_id,time_ms,action_weights,play_time_ms,duration_ms,\
                user_active_degree,follow_user_num,follow_user_num_range,fans_user_num_range,\
                friend_user_num_range,register_days_range,onehot_feat4\n\
                1,\"[10, 11, 12, 13]\",\"[2000, 5000, 5000, 80000]\",\"[0, 1, 129, 0]\",\
                \"[10, 11, 12, 13]\",\"[9, 9, 9, 9]\",2,7,2,1,1,1,\n\
                3,\"[31, 30]\",\"[900, 70000]\",\"[128, 1]\",\"[31, 30]\",\
                \"[9, 9]\",1,5,1,1,1,1,1.0\n";
    assert_eq!(fixture.read("KuaiRand-1K/data/processed_seqs.csv"), want);
    let want = "user_id,date,interval_end_ts,interval_indptr\n\
                1,20220408,2000,1\n1,20220409,5000,2\n2,20220408,1000,1\n3,20220408,900,1\n\
                1,20220422,80000,1\n3,20220422,70000,1\n";
    assert_eq!(fixture.read("KuaiRand-1K/data/processed_batches.csv"), want);
    let inference = fixture.read("KuaiRand-1K/data/processed_seqs_inference.csv");
    let lines: Vec<&str> = inference.lines().collect();
    assert_eq!(
        lines[0],
        "user_id,date,video_id,time_ms,action_weights,play_time_ms,duration_ms,interval_indptr,\
         num_intervals,user_active_degree,follow_user_num,follow_user_num_range,\
         fans_user_num_range,friend_user_num_range,register_days_range,onehot_feat4"
    );
    assert_eq!(
        lines[2],
        "1,20220409,\"[11, 12]\",\"[5000, 5000]\",\"[1, 129]\",\"[11, 12]\",\"[9, 9]\",\
         \"[0, 2]\",1,2,7,2,1,1,1,"
    );
    assert_eq!(lines.len(), 7);
    assert_eq!(fixture.names("KuaiRand-1K/data").len(), 6);
}

#[test]
fn movielens_1m() {
    let fixture = Fixture::new(&[
        ("ml-1m/users.dat", "1::F::1::10::48067\n2::M::56::16::70072\n3::F::56::10::98107-2117\n"),
        ("ml-1m/ratings.dat", "2::20::3::50\n1::11::5::60\n1::10::1::40\n2::21::4::50\n"),
    ]);
    let report = fixture.preprocess(Dataset::MovieLens1m, true).unwrap();
    assert_eq!(report.sequences.codes[1], ("age_group".to_owned(), 2));
    let want = "user_id,movie_id,rating,unix_timestamp,sex,age_group,occupation,zip_code\n\
                1,\"[10, 11]\",\"[0, 4]\",\"[40, 60]\",1,1,1,1\n\
                2,\"[20, 21]\",\"[2, 3]\",\"[50, 50]\",2,2,2,2\n";
    assert_eq!(fixture.read("ml-1m/processed_seqs.csv"), want);
    let want = "user_id,interval_end_ts,interval_indptr\n1,60,2\n2,50,2\n";
    assert_eq!(fixture.read("ml-1m/processed_batches.csv"), want);
}

#[test]
fn movielens_20m_has_half_stars_and_no_users() {
    let text = "userId,movieId,rating,timestamp\n1,2,3.5,9\n1,3,0.5,8\n";
    let fixture = Fixture::new(&[("ml-20m/ratings.csv", text)]);
    fixture.preprocess(Dataset::MovieLens20m, false).unwrap();
    let want = "user_id,movie_id,rating,unix_timestamp\n1,\"[3, 2]\",\"[0, 6]\",\"[8, 9]\"\n";
    assert_eq!(fixture.read("ml-20m/processed_seqs.csv"), want);
}

#[test]
fn movielens_100k_in_both_forms() {
    let ratings = "1\t5\t3\t7\n1\t4\t5\t6\n2\t4\t1\t6\n";
    let users = "1|24|M|technician|85711\n2|53|F|other|94043\n";
    let own = Fixture::new(&[("u.data", ratings), ("u.user", users)]);
    own.preprocess(Dataset::MovieLens100k, false).unwrap();
    let inter = format!("user_id:token\titem_id:token\trating:float\ttimestamp:float\n{ratings}");
    let users = "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n\
                 1\t24\tM\ttechnician\t85711\n2\t53\tF\tother\t94043\n";
    let recbole = Fixture::new(&[("ml-100k.inter", &inter), ("ml-100k.user", users)]);
    recbole.preprocess(Dataset::MovieLens100k, false).unwrap();
    let want = "user_id,movie_id,rating,unix_timestamp,sex,age_group,occupation,zip_code\n\
                1,\"[4, 5]\",\"[7, 1]\",\"[6, 7]\",1,1,1,1\n2,[4],[0],[6],2,2,2,2\n";
    assert_eq!(own.read("processed_seqs.csv"), want);
    assert_eq!(recbole.read("processed_seqs.csv"), want);
}

#[test]
fn sequences_of_ones_own() {
    let fixture = Fixture::new(&[("lines.txt", "2 5\n1 7\n2 4\n2 6\n")]);
    let file = Some(fixture.folder.path().join("lines.txt"));
    let dataset = Dataset::Sequences { name: "mine".to_owned(), file };
    fixture.preprocess(dataset.clone(), false).unwrap();
    assert_eq!(
        fixture.read("mine/processed_seqs.csv"),
        "user_id,item_id\n1,[7]\n2,\"[5, 4, 6]\"\n"
    );
    let error = fixture.preprocess(dataset, true).unwrap_err();
    assert_eq!(error, "mine has no times, so it has no intervals; leave --inference out");
}

#[test]
fn bad_input_leaves_what_was_there() {
    let good = log_row(1, 10, 20_220_408, 2_000, 0, 0);
    let data = "KuaiRand-1K/data";
    let check = |first: &str, second: &str, want: &str| {
        let fixture = Fixture::kuairand(first, second);
        let sequences = fixture.folder.path().join(data).join("processed_seqs.csv");
        fs::write(&sequences, "before").unwrap();
        let error = fixture.preprocess(Dataset::KuaiRand1k, true).unwrap_err();
        assert!(error.contains(want), "{error}");
        assert_eq!(fs::read_to_string(sequences).unwrap(), "before");
        assert_eq!(fixture.names(data).len(), 4, "{:?}", fixture.names(data));
    };
    let bad = good.replace("2000", "2x");
    check(&good, &bad, "log_standard_4_22_to_5_08_1k.csv, line 2, column time_ms: expected a");
    check(&good, "1,2,3\n", "line 2: expected 19 columns, found 3");
    check(&good, "", "no user is in all of 2 log files and in the table of users");
    let unknown = log_row(77, 10, 20_220_408, 2_000, 0, 0);
    check(&unknown, &unknown, "no user is in all of 2 log files and in the table of users");
}

#[test]
fn files_that_are_missing_are_named() {
    let fixture = Fixture::new(&[]);
    let error = fixture.preprocess(Dataset::KuaiRandPure, false).unwrap_err();
    assert!(error.contains("kuairand-pure has no file log_standard_4_08_to_4_21_pure*.csv"));
    assert!(error.contains("KuaiRand-Pure.tar.gz"), "{error}");
    let error = fixture.preprocess(Dataset::MovieLens1m, false).unwrap_err();
    assert!(error.contains("ml-1m has no file ratings.dat"), "{error}");
}

#[test]
fn a_user_with_two_rows_is_refused() {
    let fixture =
        Fixture::new(&[("users.dat", "1::F::1::1::1\n1::M::1::1::1\n"), ("ratings.dat", "")]);
    let error = fixture.preprocess(Dataset::MovieLens1m, false).unwrap_err();
    assert!(error.contains("users.dat, line 2: user 1 has a row already"), "{error}");
}

/// A byte of one of the files is another, or the file ends there.
#[derive(Clone, Debug)]
struct Damage {
    file: usize,
    place: usize,
    byte: Option<u8>,
}

fn damage() -> impl Strategy<Value = Damage> {
    let byte = prop_oneof![
        proptest::sample::select(b",\"[]\n-.0x \xff".as_slice()).prop_map(Some),
        any::<u8>().prop_map(Some),
        Just(None),
    ];
    (0usize..3, any::<usize>(), byte).prop_map(|(file, place, byte)| Damage { file, place, byte })
}

impl Damage {
    fn apply(&self, folder: &Path, names: [&str; 3]) {
        let path = folder.join(names[self.file]);
        let mut bytes = fs::read(&path).unwrap();
        let place = self.place % bytes.len();
        match self.byte {
            Some(byte) => bytes[place] = byte,
            None => bytes.truncate(place),
        }
        fs::write(path, bytes).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_logs_are_read_or_refused(damage in damage()) {
        let row = |user, item, time| log_row(user, item, 20_220_408, time, 1, 0);
        let log = row(1, 10, 5) + &row(3, 11, 7) + &row(1, 12, 70_000);
        let fixture = Fixture::kuairand(&log, &log);
        let data = "KuaiRand-1K/data";
        let names = ["log_standard_4_08_to_4_21_1k.csv", "log_standard_4_22_to_5_08_1k.csv",
            "user_features_1k.csv"];
        damage.apply(&fixture.folder.path().join(data), names);
        let written = if fixture.preprocess(Dataset::KuaiRand1k, true).is_ok() { 3 } else { 0 };
        prop_assert_eq!(fixture.names(data).len(), 3 + written);
    }

    #[test]
    fn damaged_sequences_are_read_or_refused(damage in damage()) {
        let log = log_row(1, 10, 20_220_408, 5, 1, 0) + &log_row(1, 11, 20_220_409, 7, 1, 0);
        let fixture = Fixture::kuairand(&log, &log);
        fixture.preprocess(Dataset::KuaiRand1k, true).unwrap();
        let data = fixture.folder.path().join("KuaiRand-1K/data");
        let names =
            ["processed_seqs.csv", "processed_seqs_inference.csv", "processed_batches.csv"];
        damage.apply(&data, names);
        let columns = SequenceColumns {
            context: vec!["user_active_degree".to_owned()],
            item: "video_id".to_owned(),
            action: Some("action_weights".to_owned()),
            time: Some("time_ms".to_owned()),
            by_date: false,
        };
        for name in &names[..2] {
            let Ok(mut table) = SequenceTable::open(&data.join(name), &columns) else { continue };
            while let Ok(Some(sequence)) = table.next_sequence() {
                prop_assert_eq!(sequence.items.len(), sequence.actions.len());
            }
        }
        // Nothing to hold but that it comes to an end.
        let _ = BatchTable::read(&data.join(names[2]));
    }
}
